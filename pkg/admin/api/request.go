package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/decode"
	"github.com/logboom/logboom/pkg/query"
	"github.com/logboom/logboom/pkg/record"
)

// fieldError says which parameter or field is wrong.
type fieldError struct {
	field, detail string
}

func (e *fieldError) Error() string { return e.field + ": " + e.detail }

var errCursor = &fieldError{"cursor", "not a cursor of an earlier answer"}

// Bounds of a page.
const (
	defaultLimit = 100
	maxLimit     = 1000
	maxCursor    = 256 // bytes
)

// readLimit reads how many items a page may hold.
func readLimit(c echo.Context) (int, error) { return readNumber(c, "limit", defaultLimit, 1, maxLimit) }

// readPage reads which page is asked for.
func readPage(c echo.Context) (limit int, cursor string, err error) {
	cursor = c.QueryParam("cursor")
	if len(cursor) > maxCursor {
		return 0, "", errCursor
	}
	limit, err = readLimit(c)
	return limit, cursor, err
}

// readFilter reads the query and the time that the records must match.
func readFilter(c echo.Context, kind record.Kind) (filter query.Query, from, to time.Time, err error) {
	text := c.QueryParam("q")
	if len(text) > query.MaxBytes {
		return filter, from, to, &fieldError{"q", "longer than " + strconv.Itoa(query.MaxBytes) + " bytes"}
	}
	if filter, err = query.Parse(kind, text); err != nil {
		return filter, from, to, err
	}
	from, to, err = readTimes(c)
	return filter, from, to, err
}

// readNumber reads a whole number, or returns the default if it is not given.
func readNumber(c echo.Context, field string, otherwise, least, most int) (int, error) {
	text := c.QueryParam(field)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, &fieldError{field, "not a number from " + strconv.Itoa(least) + " to " + strconv.Itoa(most)}
	}
	return n, nil
}

// readTimes reads the parameters from and to. They are zero if they are not
// given.
func readTimes(c echo.Context) (from, to time.Time, err error) {
	if from, err = readTime(c, "from"); err != nil {
		return from, to, err
	}
	if to, err = readTime(c, "to"); err != nil {
		return from, to, err
	}
	if !from.IsZero() && !to.IsZero() && to.Before(from) {
		return from, to, &fieldError{"to", "before from"}
	}
	return from, to, nil
}

// readTime reads a time: RFC 3339, or the epoch in s, ms, us or ns.
func readTime(c echo.Context, field string) (time.Time, error) {
	text := c.QueryParam(field)
	if text == "" {
		return time.Time{}, nil
	}
	nanoseconds, ok := decode.ParseTimestamp(text)
	if !ok {
		return time.Time{}, &fieldError{field, "neither an RFC 3339 time nor an epoch number"}
	}
	return time.Unix(0, nanoseconds).UTC(), nil
}

const (
	maxBodyBytes = 64 << 10
	maxFieldName = 64 // of an unknown field's name that an error repeats
)

var (
	errBodyTooLarge = errors.New("the body is over 64 KiB")
	errBodyEmpty    = errors.New("the body is empty; it must be a JSON object")
	errBodySlow     = errors.New("the body did not arrive in time")
	errBodyCut      = errors.New("the body is incomplete")
	errEncoded      = errors.New("the body has a Content-Encoding; it must have none")
)

// syntaxError is a body that is not a JSON object.
type syntaxError struct {
	offset int64 // bytes into the body
	detail string
}

func (e *syntaxError) Error() string { return e.detail }

// missingError is a body without a required field.
type missingError struct {
	field string
}

func (e *missingError) Error() string { return e.field + ": is required" }

// body is a complete JSON object with known fields only.
type body struct {
	raw   []byte
	given map[string]bool // the fields that it holds
}

// readBody reads the request's body: an object with fields of T, under their
// exact JSON names. Only pointers may be null, and the required fields must be
// given. The types of the values are checked by into. All fields of T are
// scalars, so that nesting never gets past it.
func readBody[T any](c echo.Context, required ...string) (body, error) {
	raw, err := readAll(c)
	if err != nil {
		return body{}, err
	}
	given, err := checkFields(raw, fieldsOf(reflect.TypeFor[T]()))
	if err != nil {
		return body{}, err
	}
	for _, name := range required {
		if !given[name] {
			return body{}, &missingError{name}
		}
	}
	return body{raw, given}, nil
}

// readAll reads the body, never more than its bound.
func readAll(c echo.Context) ([]byte, error) {
	if encoding := c.Request().Header.Get(echo.HeaderContentEncoding); encoding != "" && encoding != "identity" {
		return nil, errEncoded
	}
	raw, err := io.ReadAll(io.LimitReader(c.Request().Body, maxBodyBytes+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errBodySlow
	case err != nil:
		return nil, errBodyCut
	case len(raw) > maxBodyBytes:
		return nil, errBodyTooLarge
	case len(bytes.TrimSpace(raw)) == 0:
		return nil, errBodyEmpty
	case !utf8.Valid(raw):
		return nil, &syntaxError{0, "the body is not UTF-8"}
	}
	return raw, nil
}

// fieldsOf returns the JSON names of a struct's fields, and which may be null.
func fieldsOf(t reflect.Type) map[string]bool {
	nullable := map[string]bool{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		nullable[name] = f.Type.Kind() == reflect.Pointer
	}
	return nullable
}

// checkFields reads the object and returns the names of its fields.
func checkFields(raw []byte, nullable map[string]bool) (map[string]bool, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if first, err := decoder.Token(); err != nil || first != json.Delim('{') {
		return nil, &syntaxError{0, "the body must be one JSON object"}
	}
	seen := map[string]bool{}
	for decoder.More() {
		name, value, err := nextField(decoder)
		if err != nil {
			return nil, &syntaxError{decoder.InputOffset(), "the body is not valid JSON from this byte on"}
		}
		if err := checkField(name, value, nullable, seen); err != nil {
			return nil, err
		}
		seen[name] = true
	}
	if _, err := decoder.Token(); err != nil {
		return nil, &syntaxError{decoder.InputOffset(), "the object does not end"}
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, &syntaxError{decoder.InputOffset(), "the body continues after the object"}
	}
	return seen, nil
}

func nextField(decoder *json.Decoder) (name string, value json.RawMessage, err error) {
	token, err := decoder.Token()
	if err != nil {
		return "", nil, err
	}
	name, _ = token.(string) // the decoder accepts nothing else as a name
	return name, value, decoder.Decode(&value)
}

func checkField(name string, value json.RawMessage, nullable, seen map[string]bool) error {
	mayBeNull, known := nullable[name]
	switch {
	case !known:
		return &fieldError{printable(name), "is unknown; the fields are " + strings.Join(slices.Sorted(maps.Keys(nullable)), ", ")}
	case seen[name]:
		return &fieldError{name, "is given twice"}
	case !mayBeNull && string(value) == "null":
		return &fieldError{name, "must not be null"}
	}
	return nil
}

// printable returns a client's word as an error may repeat it: short, and
// without characters that act on terminals.
func printable(word string) string {
	quoted := strconv.QuoteToASCII(word[:min(len(word), maxFieldName)])
	return quoted[1 : len(quoted)-1]
}

// into sets the fields that the body gives and leaves the others unchanged.
func (b body) into(value any) error {
	err := json.Unmarshal(b.raw, value)
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		return &fieldError{mismatch.Field, "must be " + kindName(mismatch.Type)}
	}
	return err
}

// kindName names the values of a type in an error.
func kindName(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.Kind() == reflect.String:
		return "a string"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case reflect.Zero(t).CanInt(), reflect.Zero(t).CanUint():
		return "a whole number that is not too large"
	}
	return "of another type"
}
