package ingest

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/logboom/logboom/pkg/decode"
	"github.com/logboom/logboom/pkg/problem"
	"github.com/logboom/logboom/pkg/record"
)

// addOTLPRoute adds the route of OpenTelemetry's OTLP/HTTP protocol for logs. An
// answer has the form that the request's Content-Type names, even if the body
// was not read. An error in protobuf is a google.rpc.Status; an error in JSON is
// a problem, as on every other route.
func (s *Server) addOTLPRoute() {
	binary := s.otlp(otlpForm{mediaProtobuf, appendProtoPartial, refuseProto})
	text := s.otlp(otlpForm{echo.MIMEApplicationJSON, appendJSONPartial, problem.Write})
	s.addRoute(http.MethodPost, "/v1/logs", func(c echo.Context) error {
		p := text
		if media := mediaType(c.Request().Header); media == mediaProtobuf || media == "application/protobuf" {
			p = binary
		}
		c.Set(protocolKey, p)
		return s.receive(c, p)
	})
}

// otlpForm is one of the two forms of OTLP's answers.
type otlpForm struct {
	media   string
	partial func(dst []byte, rejected int, message string) []byte // appends an ExportLogsServiceResponse
	refuse  func(w http.ResponseWriter, p problem.Problem, id string) error
}

// otlp returns the protocol of OpenTelemetry logs with one form of answers.
func (s *Server) otlp(form otlpForm) *protocol {
	return s.protocol(s.cfg.Limits, &protocol{
		kind: record.KindLog, token: bearerToken, decode: (*request).decodeOTLP, accept: form.accept, refuse: form.refuse,
	})
}

// decodeOTLP turns records into rows. The Content-Type is only a hint: a body
// that begins with a brace is JSON, because no protobuf request begins with one.
func (r *request) decodeOTLP(req *http.Request, body []byte, now time.Time) decode.Result {
	if len(body) > 0 && body[0] == '{' || mediaType(req.Header) == echo.MIMEApplicationJSON {
		return r.decoder.OTLPJSON(body, r.defaults(now), r.addLog)
	}
	return r.decoder.OTLPProto(body, r.defaults(now), r.addLog)
}

// mediaProtobuf is the type of the specification; clients also send it without
// the x.
const mediaProtobuf = "application/x-protobuf"

// mediaType returns the request's media type, in small letters and without
// parameters. It ignores parameters that are invalid.
func mediaType(header http.Header) string {
	media, _, err := mime.ParseMediaType(header.Get(echo.HeaderContentType))
	if err != nil && media == "" {
		return ""
	}
	return media
}

// accept answers that the queue has the records, and how many were rejected.
func (f otlpForm) accept(c echo.Context, r *request, result decode.Result) error {
	message := ""
	if result.RejectedTotal > 0 {
		first := result.Rejected[0]
		message = fmt.Sprintf("%d of %d records were not accepted; the first is record %d: %s: %s",
			result.RejectedTotal, result.Accepted+result.RejectedTotal, first.Index, first.Code, first.Detail)
	}
	r.answer = f.partial(r.answer[:0], result.RejectedTotal, message)
	return c.Blob(http.StatusOK, f.media, r.answer)
}

// Numbers of google.rpc.Code. Clients go by the HTTP status; these are for people
// and logs.
const (
	rpcInvalidArgument   = 3
	rpcDeadlineExceeded  = 4
	rpcPermissionDenied  = 7
	rpcResourceExhausted = 8
	rpcInternal          = 13
	rpcUnavailable       = 14
	rpcUnauthenticated   = 16
)

// rpcCode returns the google.rpc.Code for an HTTP status.
func rpcCode(status int) int {
	switch status {
	case http.StatusUnauthorized:
		return rpcUnauthenticated
	case http.StatusForbidden:
		return rpcPermissionDenied
	case http.StatusRequestTimeout:
		return rpcDeadlineExceeded
	case http.StatusTooManyRequests:
		return rpcResourceExhausted
	case http.StatusInternalServerError:
		return rpcInternal
	case http.StatusServiceUnavailable:
		return rpcUnavailable
	}
	return rpcInvalidArgument
}

// refuseProto answers with a problem as a google.rpc.Status, whose message begins
// with the problem's code. Status and headers are those of the problem: OTLP's
// clients retry after 429 and 503 with Retry-After.
func refuseProto(w http.ResponseWriter, p problem.Problem, _ string) error {
	p.SetHeaders(w.Header())
	w.Header().Set(echo.HeaderContentType, mediaProtobuf)
	w.WriteHeader(p.Status)
	_, err := w.Write(appendProtoStatus(nil, rpcCode(p.Status), statusMessage(p)))
	return err
}

// statusMessage returns a problem in one line.
func statusMessage(p problem.Problem) string {
	message := p.Code + ": "
	if p.Index != nil {
		message += fmt.Sprintf("record %d, byte %d: ", *p.Index, *p.Offset)
	}
	message += p.Detail
	if p.Quota != nil {
		message += " until " + p.Quota.Reset.Format(time.RFC3339)
	}
	return message
}

// appendProtoStatus appends a google.rpc.Status: code is field 1, message is
// field 2.
func appendProtoStatus(dst []byte, code int, message string) []byte {
	dst = protowire.AppendTag(dst, 1, protowire.VarintType)
	dst = protowire.AppendVarint(dst, uint64(code))
	dst = protowire.AppendTag(dst, 2, protowire.BytesType)
	return protowire.AppendString(dst, message)
}

// appendProtoPartial appends an ExportLogsServiceResponse, which is empty if
// nothing was rejected. Its field 1 is partial_success, with rejected_log_records
// as field 1 and error_message as field 2.
func appendProtoPartial(dst []byte, rejected int, message string) []byte {
	if rejected == 0 {
		return dst
	}
	partial := protowire.AppendTag(nil, 1, protowire.VarintType)
	partial = protowire.AppendVarint(partial, uint64(rejected))
	partial = protowire.AppendTag(partial, 2, protowire.BytesType)
	partial = protowire.AppendString(partial, message)
	dst = protowire.AppendTag(dst, 1, protowire.BytesType)
	return protowire.AppendBytes(dst, partial)
}

// appendJSONPartial appends the same in protobuf's JSON mapping, in which a
// 64-bit number is a string.
func appendJSONPartial(dst []byte, rejected int, message string) []byte {
	if rejected == 0 {
		return append(dst, "{}"...)
	}
	dst = append(dst, `{"partialSuccess":{"rejectedLogRecords":"`...)
	dst = strconv.AppendInt(dst, int64(rejected), 10)
	dst = append(dst, `","errorMessage":`...)
	quoted, _ := json.Marshal(message) // a string is always valid JSON
	return append(append(dst, quoted...), "}}"...)
}
