package admin

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
	"unicode/utf8"

	"github.com/labstack/echo/v4"
)

const (
	maxBodyBytes = 64 << 10
	maxFieldName = 64 // of a foreign field's name that an error repeats
)

var (
	errBodyTooLarge = errors.New("the body is over 64 KiB")
	errBodyEmpty    = errors.New("the body is empty; it must be a JSON object")
	errBodySlow     = errors.New("the body did not arrive in time")
	errBodyCut      = errors.New("the body did not arrive whole")
	errEncoded      = errors.New("bodies are taken as they are, without Content-Encoding")
)

// syntaxError is a body that is no JSON object.
type syntaxError struct {
	offset int64 // bytes into the body
	detail string
}

func (e *syntaxError) Error() string { return e.detail }

// missingError is a body without a field that it needs.
type missingError struct {
	field string
}

func (e *missingError) Error() string { return e.field + ": is required" }

// body is a JSON object that was read whole, with known fields only.
type body struct {
	raw   []byte
	given map[string]bool // the fields that it holds
}

// readBody reads the request's body, an object with fields of T under their
// exact JSON names. null is for pointers only; the required fields are there.
// All fields of T are scalars, so nesting never gets past into.
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

// readAll reads what is sent, bounded before it is held.
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

// fieldsOf gives the JSON names of a struct's fields, and which may be null.
func fieldsOf(t reflect.Type) map[string]bool {
	nullable := map[string]bool{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		nullable[name] = f.Type.Kind() == reflect.Pointer
	}
	return nullable
}

// checkFields walks the object and gives the names that it holds.
func checkFields(raw []byte, nullable map[string]bool) (map[string]bool, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if first, err := decoder.Token(); err != nil || first != json.Delim('{') {
		return nil, &syntaxError{0, "the body must be one JSON object"}
	}
	seen := map[string]bool{}
	for decoder.More() {
		name, value, err := nextField(decoder)
		if err != nil {
			return nil, &syntaxError{decoder.InputOffset(), "the body is not JSON from here on"}
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
		return nil, &syntaxError{decoder.InputOffset(), "the body goes on after the object"}
	}
	return seen, nil
}

func nextField(decoder *json.Decoder) (name string, value json.RawMessage, err error) {
	token, err := decoder.Token()
	if err != nil {
		return "", nil, err
	}
	name, _ = token.(string) // the decoder takes nothing else for a name
	return name, value, decoder.Decode(&value)
}

func checkField(name string, value json.RawMessage, nullable, seen map[string]bool) error {
	mayBeNull, known := nullable[name]
	switch {
	case !known:
		return &fieldError{printable(name), "is not known here; known are " + strings.Join(slices.Sorted(maps.Keys(nullable)), ", ")}
	case seen[name]:
		return &fieldError{name, "is given twice"}
	case !mayBeNull && string(value) == "null":
		return &fieldError{name, "must not be null"}
	}
	return nil
}

// printable is a sender's word as it may be repeated: short, and without
// characters that a terminal obeys.
func printable(word string) string {
	quoted := strconv.QuoteToASCII(word[:min(len(word), maxFieldName)])
	return quoted[1 : len(quoted)-1]
}

// into sets the fields that the body gives and leaves the others alone.
func (b body) into(value any) error {
	err := json.Unmarshal(b.raw, value)
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		return &fieldError{mismatch.Field, "must be " + kindName(mismatch.Type)}
	}
	return err
}

// kindName says what a field takes, for whoever sent something else.
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
