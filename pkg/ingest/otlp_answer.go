package ingest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/logboom/logboom/pkg/decode"
	"github.com/logboom/logboom/pkg/problem"
)

// otlpForm is one of the two forms of OTLP's answers.
type otlpForm struct {
	media   string
	partial func(dst []byte, rejected int, message string) []byte // ExportLogsServiceResponse
	refuse  func(w http.ResponseWriter, p problem.Problem, id string) error
}

// Numbers of google.rpc.Code. Senders go by the HTTP status; these are for
// people and logs.
const (
	rpcInvalidArgument   = 3
	rpcDeadlineExceeded  = 4
	rpcPermissionDenied  = 7
	rpcResourceExhausted = 8
	rpcInternal          = 13
	rpcUnavailable       = 14
	rpcUnauthenticated   = 16
)

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

// accept answers that the queue has the records, and which of them were bad.
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

// refuseProto answers a problem as a Status whose message begins with the problem's
// code. The status and the headers are a problem's own: 429 and 503 with
// Retry-After are what OTLP's senders try again after.
func refuseProto(w http.ResponseWriter, p problem.Problem, id string) error {
	if err := problem.Write(&statusOnly{header: w.Header()}, p, id); err != nil {
		return err
	}
	w.Header().Set(echo.HeaderContentType, mediaProtobuf)
	w.WriteHeader(p.Status)
	_, err := w.Write(appendProtoStatus(nil, rpcCode(p.Status), statusMessage(p)))
	return err
}

// statusMessage is a problem in one line.
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

// appendProtoStatus adds a google.rpc.Status: code is field 1, message field 2.
func appendProtoStatus(dst []byte, code int, message string) []byte {
	dst = protowire.AppendTag(dst, 1, protowire.VarintType)
	dst = protowire.AppendVarint(dst, uint64(code))
	dst = protowire.AppendTag(dst, 2, protowire.BytesType)
	return protowire.AppendString(dst, message)
}

// appendProtoPartial adds an ExportLogsServiceResponse, which is empty where
// nothing was rejected. Its field 1 is partial_success: rejected_log_records is
// field 1 of that, error_message field 2.
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

// appendJSONPartial adds the same in protobuf's JSON mapping, where a number of
// 64 bits is a string.
func appendJSONPartial(dst []byte, rejected int, message string) []byte {
	if rejected == 0 {
		return append(dst, "{}"...)
	}
	dst = append(dst, `{"partialSuccess":{"rejectedLogRecords":"`...)
	dst = strconv.AppendInt(dst, int64(rejected), 10)
	dst = append(dst, `","errorMessage":`...)
	return append(appendJSONText(dst, message), "}}"...)
}

func appendJSONText(dst []byte, text string) []byte {
	quoted, _ := json.Marshal(text) // a string is always JSON
	return append(dst, quoted...)
}
