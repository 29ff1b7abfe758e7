package front

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/logboom/logboom/pkg/embedded/engine/internal/chdb"
)

// ClickHouse's numbers for the errors that this package raises or maps.
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

// exception is an error in the form that ClickHouse's clients understand.
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

// codeOf is the number of an error from here or from the engine.
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

// textOf is the message for the client, always with a code at its front.
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

// statusOf maps an error to the status that ClickHouse gives it, which
// clients show but do not branch on: the code is what counts.
//
// The table: src/Server/HTTP/exceptionCodeToHTTPStatus.cpp.
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
