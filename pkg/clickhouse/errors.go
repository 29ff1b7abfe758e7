package clickhouse

import (
	"errors"
	"fmt"
	"net"
	"net/url"

	ch "github.com/ClickHouse/clickhouse-go/v2"
)

// Verdict says what to do after an insert failed.
type Verdict uint8

const (
	// Ambiguous means that nobody knows which of the rows are stored. Count them
	// first.
	Ambiguous Verdict = iota
	// Transient means that ClickHouse refused for a reason that passes. Wait,
	// count and retry.
	Transient
	// Permanent means that ClickHouse refused because of the rows themselves and
	// will refuse them again. Count, then halve the batch until the bad message
	// is alone.
	Permanent
)

// String returns the verdict as a metric's label.
func (v Verdict) String() string {
	switch v {
	case Transient:
		return "transient"
	case Permanent:
		return "permanent"
	}
	return "ambiguous"
}

// Class is what an error means. The reason is a short word from a closed set, for
// a metric's label.
type Class struct {
	Verdict Verdict
	Reason  string
}

// Codes that mean one thing to an insert and another to a read.
const (
	codeTimeoutExceeded = 159
	codeMemoryLimit     = 241
)

// classify is Classify for one code of the server, as ClickHouse numbers them
// in src/Common/ErrorCodes.cpp.
func classify(code int32) Class {
	switch code {
	case 6, 26, 27, 38, 41, 72: // CANNOT_PARSE_…
		return Class{Permanent, "unparsable"}
	case 53, 70: // TYPE_MISMATCH, CANNOT_CONVERT_TYPE
		return Class{Permanent, "type_mismatch"}
	case 69, 117, 131, 321, 349, 469, 691: // out of bounds, incorrect data, too large a string, null, constraint, enum
		return Class{Permanent, "incorrect_data"}
	case codeTimeoutExceeded: // a part may have been stored before
		return Class{Ambiguous, "timeout"}
	case 209, 210: // SOCKET_TIMEOUT, NETWORK_ERROR
		return Class{Ambiguous, "connection_lost"}
	case 319: // UNKNOWN_STATUS_OF_INSERT
		return Class{Ambiguous, "unknown_status"}
	case 202: // TOO_MANY_SIMULTANEOUS_QUERIES
		return Class{Transient, "busy"}
	case 216: // QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING: an earlier attempt still runs
		return Class{Ambiguous, "still_running"}
	case codeMemoryLimit:
		return Class{Transient, "memory"}
	case 242: // TABLE_IS_READ_ONLY
		return Class{Transient, "read_only"}
	case 243: // NOT_ENOUGH_SPACE
		return Class{Transient, "disk_full"}
	case 252: // TOO_MANY_PARTS
		return Class{Transient, "too_many_parts"}
	case 60, 81: // UNKNOWN_TABLE, UNKNOWN_DATABASE: not migrated yet
		return Class{Transient, "no_schema"}
	case 192, 193, 194, 497, 516: // users and passwords: an operator corrects them
		return Class{Transient, "access_denied"}
	}
	return Class{Ambiguous, "other"}
}

// Classify returns what an error of an insert means. Transient does not promise
// that nothing is stored: an insert into two partitions may fail between them.
func Classify(err error) Class {
	var exception *ch.Exception
	var network *net.OpError
	var timeout net.Error
	switch {
	case errors.As(err, &exception):
		return classify(exception.Code)
	case errors.As(err, &network) && network.Op == "dial":
		return Class{Transient, "unreachable"} // nothing was sent
	case errors.Is(err, ch.ErrAcquireConnTimeout):
		return Class{Transient, "busy"}
	case errors.As(err, &timeout) && timeout.Timeout(): // also for a context's deadline
		return Class{Ambiguous, "timeout"}
	}
	return Class{Ambiguous, "connection_lost"}
}

// ErrTooExpensive is the error of a read that exceeded its limit of time, memory
// or rows. The person who asked can narrow the time range.
var ErrTooExpensive = errors.New("the query reads too much, narrow the time range")

// readError wraps an error of a read from a table.
func readError(what string, err error) error {
	var exception *ch.Exception
	if errors.As(err, &exception) {
		switch exception.Code {
		case 158, 307, 396, codeTimeoutExceeded, codeMemoryLimit: // too many rows, bytes, rows or bytes
			return fmt.Errorf("clickhouse: read %s: %w (code %d)", what, ErrTooExpensive, exception.Code)
		}
	}
	return fmt.Errorf("clickhouse: read %s: %w", what, redacted(err))
}

// maxErrorText bounds an error's text: ClickHouse repeats values in its own.
const maxErrorText = 512

// redactedError keeps an error's chain and shows a part of its text.
type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.err }

// redacted removes the URL of a failed request, which has settings and
// parameters, and cuts long texts.
func redacted(err error) error {
	text := err.Error()
	var request *url.Error
	if errors.As(err, &request) {
		text = request.Err.Error()
	}
	if len(text) > maxErrorText {
		text = text[:maxErrorText] + "…"
	}
	return &redactedError{text: text, err: err}
}
