package chdb

import (
	"strconv"
	"strings"
)

// Error is an error that the engine returned.
type Error struct {
	Code    int    // ClickHouse's code; 0 if the text contains none
	Message string // the engine's whole text, "Code: 60. DB::Exception: …"
}

func (e *Error) Error() string { return e.Message }

func parseError(text string) *Error {
	text = strings.TrimRight(text, "\n")
	_, after, _ := strings.Cut(text, "Code: ")
	number, _, _ := strings.Cut(after, ".")
	code, err := strconv.Atoi(number)
	if err != nil {
		code = 0
	}
	return &Error{Code: code, Message: text}
}
