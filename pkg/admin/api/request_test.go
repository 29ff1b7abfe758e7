package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/project"
)

// FuzzBodies reads any bytes as a body: either they are one JSON object with
// known fields only, or the answer is 4xx.
func FuzzBodies(f *testing.F) {
	for _, seed := range []string{
		`{"retention_days":7}`, `{"retention_days":7,"retention_days":8}`, `{"Retention_days":7}`, `{"retention_days":null}`,
		`{"retention_days":1e2}`, `{"retention_days":-1}`, `{} {}`, `[`, `{"a":{"b":[{}]}}`, "\xff", " ", `{"retention_days":"7"`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := echo.New().NewContext(httptest.NewRequest(http.MethodPut, "/", strings.NewReader(text)), httptest.NewRecorder())
		sent, err := readBody[project.Settings](c)
		if err == nil {
			err = sent.into(&project.Settings{})
		}
		if err != nil {
			if p := problemOf(err); p.Status/100 != 4 {
				t.Fatalf("%q is answered %d: %v", text, p.Status, err)
			}
			return
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &object); err != nil {
			t.Fatalf("%q passed: %v", text, err)
		}
		known := fieldsOf(reflect.TypeFor[project.Settings]())
		for name, value := range object {
			if nullable, found := known[name]; !found || string(value) == "null" && !nullable {
				t.Fatalf("%q passed with %s", text, name)
			}
		}
	})
}

func TestBodyIsReadUpToItsBoundOnly(t *testing.T) {
	t.Parallel()
	endless := &endlessReader{}
	c := echo.New().NewContext(httptest.NewRequest(http.MethodPut, "/", endless), httptest.NewRecorder())
	if _, err := readBody[nameBody](c); !errors.Is(err, errBodyTooLarge) || endless.read > 4*maxBodyBytes {
		t.Errorf("%d bytes read: %v", endless.read, err)
	}
}

// endlessReader never ends, and counts the bytes that were read.
type endlessReader struct{ read int }

func (r *endlessReader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	r.read += len(p)
	return len(p), nil
}
