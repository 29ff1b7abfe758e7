package front

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/logboom/logboom/pkg/embedded/engine/internal/chdb"
)

// ClickHouse's codes of the errors that this package raises or maps.
const (
	codeCannotReadAllData    = 33
	codeBadArguments         = 36
	codeNotImplemented       = 48
	codeSyntaxError          = 62
	codeUnknownCompression   = 89
	codeUnknownSetting       = 115
	codeTimeoutExceeded      = 159
	codeRequiredPassword     = 194
	codeTooManyQueries       = 202
	codeQueryTooLarge        = 223
	codeCannotDecompress     = 271
	codeAuthenticationFailed = 516
	codeUnknownException     = 1002
)

// exception is an error in the format that ClickHouse's clients parse.
type exception struct {
	code    int
	name    string
	message string
}

func (e *exception) Error() string {
	return fmt.Sprintf("Code: %d. DB::Exception: %s. (%s)", e.code, e.message, e.name)
}

func raise(code int, name, format string, args ...any) error {
	return &exception{code: code, name: name, message: fmt.Sprintf(format, args...)}
}

// codeOf is the code of an error of this package or of the engine.
func codeOf(err error) int {
	var ours *exception
	var engines *chdb.Error
	switch {
	case errors.As(err, &ours):
		return ours.code
	case errors.As(err, &engines) && engines.Code > 0:
		return engines.Code
	}
	return codeUnknownException
}

// textOf is the message for the client. It always begins with a code.
func textOf(err error) string {
	var ours *exception
	var engines *chdb.Error
	switch {
	case errors.As(err, &ours):
		return ours.Error()
	case errors.As(err, &engines) && engines.Code > 0:
		return engines.Message
	}
	return raise(codeUnknownException, "UNKNOWN_EXCEPTION", "%s", err).Error()
}

// statusOf is the HTTP status that ClickHouse sends for a code. Clients show it
// but decide by the code.
//
// Source: src/Server/HTTP/exceptionCodeToHTTPStatus.cpp.
func statusOf(code int) int {
	switch code {
	case codeRequiredPassword:
		return http.StatusUnauthorized
	case 192, 193, codeAuthenticationFailed, 512:
		return http.StatusForbidden
	case 6, 25, 26, 27, 38, 41, 53, codeSyntaxError, 72, 117, 123, 124, 166, 167, 168, 427, codeBadArguments:
		return http.StatusBadRequest
	case 46, 47, 50, 56, 60, 63, 73, 78, 81, codeUnknownSetting, 336, 511:
		return http.StatusNotFound
	case codeQueryTooLarge:
		return http.StatusRequestEntityTooLarge
	case codeNotImplemented:
		return http.StatusNotImplemented
	case codeTooManyQueries, 209, 76, 439:
		return http.StatusServiceUnavailable
	case codeTimeoutExceeded:
		return http.StatusRequestTimeout
	}
	return http.StatusInternalServerError
}
