package ingest

import (
	"mime"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/decode"
	"github.com/logboom/logboom/pkg/problem"
	"github.com/logboom/logboom/pkg/record"
)

// layOTLP lays the route of OpenTelemetry's OTLP/HTTP protocol for logs. Its
// answers have the form of the request, and a request's form is its
// Content-Type: so errors before the body was read have it too. An error in
// protobuf is the protocol's google.rpc.Status, one in JSON the problem that
// every other route answers.
func (s *Server) layOTLP() {
	binary := s.otlp(otlpForm{mediaProtobuf, appendProtoPartial, refuseProto})
	text := s.otlp(otlpForm{echo.MIMEApplicationJSON, appendJSONPartial, problem.Write})
	s.lay(http.MethodPost, "/v1/logs", func(c echo.Context) error {
		p := text
		if isProtobuf(c.Request().Header) {
			p = binary
		}
		c.Set(protocolKey, p)
		return s.receive(c, p)
	})
}

// otlp is a protocol of OpenTelemetry logs; its two forms differ in how they
// are answered.
func (s *Server) otlp(form otlpForm) *protocol {
	return s.protocol(s.cfg.Limits, &protocol{
		kind: record.KindLog, token: bearerToken, decode: (*request).decodeOTLP, accept: form.accept, refuse: form.refuse,
	})
}

// decodeOTLP turns records into rows. Content-Type is advice: no protobuf
// request begins with a brace, and what is labelled as neither form is JSON
// only if it does.
func (r *request) decodeOTLP(head *http.Request, body []byte, now time.Time) decode.Result {
	if len(body) > 0 && body[0] == '{' || mediaType(head.Header) == echo.MIMEApplicationJSON {
		return r.decoder.OTLPJSON(body, r.defaults(now), r.addLog)
	}
	return r.decoder.OTLPProto(body, r.defaults(now), r.addLog)
}

// mediaProtobuf is the one of the specification; senders also use it without
// the x.
const mediaProtobuf = "application/x-protobuf"

func isProtobuf(header http.Header) bool {
	media := mediaType(header)
	return media == mediaProtobuf || media == "application/protobuf"
}

// mediaType is the request's, in small letters and without parameters; damaged
// ones cost nothing else.
func mediaType(header http.Header) string {
	media, _, err := mime.ParseMediaType(header.Get(echo.HeaderContentType))
	if err != nil && media == "" {
		return ""
	}
	return media
}
