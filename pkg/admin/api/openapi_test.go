package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/problem"
)

// described finds the operation of a request by its method and path.
func described(d openAPI, method, path string) (operation, bool) {
	path, _, _ = strings.Cut(path, "?")
	parts := strings.Split(path, "/")
	for template, operations := range d.Paths {
		same := slices.EqualFunc(parts, strings.Split(template, "/"), func(part, pattern string) bool {
			return part == pattern || strings.HasPrefix(pattern, "{")
		})
		if o, found := operations[strings.ToLower(method)]; same && found {
			return o, true
		}
	}
	return operation{}, false
}

// checkDescribed checks that openapi.json describes the answer.
func checkDescribed(t *testing.T, s *testServer, method, path string, answer *httptest.ResponseRecorder) {
	t.Helper()
	o, found := described(s.description, method, path)
	if !found {
		t.Errorf("%s %s is not described", method, path)
		return
	}
	r, found := o.Responses[fmt.Sprint(answer.Code)]
	if !found {
		t.Errorf("%s %s: status %d is not described: %s", method, path, answer.Code, answer.Body)
		return
	}
	if len(r.Content) == 0 {
		if answer.Body.Len() > 0 {
			t.Errorf("%s %s: a body where none is described: %s", method, path, answer.Body)
		}
		return
	}
	media, found := r.Content[strings.TrimSuffix(answer.Header().Get("Content-Type"), "; charset=UTF-8")]
	if !found {
		t.Errorf("%s %s: media type %s is not described", method, path, answer.Header().Get("Content-Type"))
		return
	}
	if slices.Contains([]string{mediaNDJSON, mediaCSV, mediaEvents}, answer.Header().Get("Content-Type")) {
		return
	}
	var value any
	if err := json.Unmarshal(answer.Body.Bytes(), &value); err != nil {
		t.Fatal(err)
	}
	for _, fault := range faults(s.description.Components.Schemas, media.Schema, value, "answer") {
		t.Errorf("%s %s: %s", method, path, fault)
	}
}

// faults lists where a value does not match a schema, including members that are
// not described.
func faults(named map[string]schema, want schema, value any, at string) (list []string) {
	if name, found := strings.CutPrefix(want.Ref, schemaRoot); found {
		return faults(named, named[name], value, at)
	}
	if want.Type == nil {
		return nil // anything
	}
	if !slices.Contains(typeNames(want), jsonType(value)) {
		return []string{fmt.Sprintf("%s is of type %s, not %v", at, jsonType(value), want.Type)}
	}
	switch value := value.(type) {
	case map[string]any:
		return objectFaults(named, want, value, at)
	case []any:
		for i, item := range value {
			list = append(list, faults(named, *want.Items, item, fmt.Sprintf("%s[%d]", at, i))...)
		}
	case string:
		if _, err := time.Parse(time.RFC3339Nano, value); want.Format == "date-time" && err != nil {
			list = append(list, at+" is not a valid time: "+value)
		}
	}
	return list
}

func objectFaults(named map[string]schema, want schema, value map[string]any, at string) (list []string) {
	for _, name := range want.Required {
		if _, found := value[name]; !found {
			list = append(list, at+"."+name+" is missing")
		}
	}
	for name, member := range value {
		property, found := want.Properties[name]
		if !found && want.AdditionalProperties != nil {
			property, found = *want.AdditionalProperties, true
		}
		if !found {
			list = append(list, at+"."+name+" is not described")
			continue
		}
		list = append(list, faults(named, property, member, at+"."+name)...)
	}
	return list
}

func typeNames(s schema) []string {
	switch names := s.Type.(type) {
	case []string:
		return withNumber(names)
	case string:
		return withNumber([]string{names})
	}
	return nil
}

// withNumber accepts JSON's only kind of number as an integer.
func withNumber(names []string) []string {
	if slices.Contains(names, "integer") {
		return append(names, "number")
	}
	return names
}

func jsonType(value any) string {
	switch value.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case float64:
		return "number"
	case bool:
		return "boolean"
	}
	return "null"
}

func TestOpenAPIDescribesExactlyTheRoutes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.server()
	answer := send(s, http.MethodGet, "/api/v1/openapi.json", "", "")
	checkDescribed(t, s, http.MethodGet, "/api/v1/openapi.json", answer)
	var d openAPI
	if err := json.Unmarshal(answer.Body.Bytes(), &d); err != nil || answer.Code != http.StatusOK {
		t.Fatalf("answer %d, %v", answer.Code, err)
	}
	described := map[string]bool{}
	for path, operations := range d.Paths {
		for method := range operations {
			described[strings.ToUpper(method)+" "+path] = true
		}
	}
	mounted := map[string]bool{}
	for _, r := range s.echo.Routes() {
		if strings.HasPrefix(r.Path, apiRoot+"/") && strings.ToUpper(r.Method) == r.Method {
			mounted[r.Method+" "+template(r.Path)] = true
		}
	}
	if !maps.Equal(described, mounted) || len(mounted) == 0 {
		t.Errorf("described %v\nmounted %v", slices.Sorted(maps.Keys(described)), slices.Sorted(maps.Keys(mounted)))
	}
}

func TestOpenAPIHasNoBrokenReferences(t *testing.T) {
	t.Parallel()
	s := &API{}
	d := describe(s.routes())
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(text), `"$ref":"`+schemaRoot)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		if d.Components.Schemas[name].Type == nil {
			t.Errorf("%s is referenced and missing", name)
		}
	}
	for path, operations := range d.Paths {
		for method, o := range operations {
			for _, p := range o.Parameters {
				if p.Description == "" {
					t.Errorf("%s %s: parameter %s has no description", method, path, p.Name)
				}
			}
			for status, r := range o.Responses {
				if _, found := r.Content[problem.ContentType]; status >= "4" && !found {
					t.Errorf("%s %s: %s is not described as a problem", method, path, status)
				}
			}
		}
	}
	for at := range fieldNotes() {
		name, field, _ := strings.Cut(at, ".")
		if d.Components.Schemas[name].Properties[field].Description == "" {
			t.Errorf("the note on %s describes no field", at)
		}
	}
}

func TestBodiesRequireTheFieldsThatAreDescribedAsRequired(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.server()
	b.Project(t, "shop")
	for _, r := range s.routes() {
		if r.body == nil {
			continue
		}
		o, _ := described(s.description, r.method, r.address("shop"))
		required := o.RequestBody.Content["application/json"].Schema.Required
		got := decoded[refusal](t, b.do(t, s, r.method, r.address("shop"), "{}"))
		if missing := got.Code == "missing_field"; missing != (len(required) > 0) || missing && got.Field != required[0] {
			t.Errorf("%s %s requires %v, and {} is answered %v", r.method, r.path, required, got)
		}
	}
}
