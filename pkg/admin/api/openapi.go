package api

import (
	"encoding"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/logboom/logboom/pkg/admin"
	"github.com/logboom/logboom/pkg/problem"
	"github.com/logboom/logboom/pkg/telemetry"
)

// openAPI is an OpenAPI 3.1 document, with the parts that this API needs. It is
// made from the route table and the Go types of the answers, so that it cannot
// differ from them.
type openAPI struct {
	OpenAPI    string                          `json:"openapi"`
	Info       info                            `json:"info"`
	Paths      map[string]map[string]operation `json:"paths"` // by path, then method
	Components components                      `json:"components"`
	Security   []map[string][]string           `json:"security"`
}

type info struct {
	Title   string `json:"title"`
	Version string `json:"version"`
}

type operation struct {
	OperationID string                 `json:"operationId"`
	Summary     string                 `json:"summary"`
	Description string                 `json:"description"`
	Security    *[]map[string][]string `json:"security,omitempty"`
	Parameters  []parameter            `json:"parameters,omitempty"`
	RequestBody *requestBody           `json:"requestBody,omitempty"`
	Responses   map[string]response    `json:"responses"` // by status
}

type parameter struct {
	Name        string `json:"name"`
	In          string `json:"in"`
	Required    bool   `json:"required"`
	Description string `json:"description"`
	Schema      schema `json:"schema"`
}

type requestBody struct {
	Required bool                 `json:"required"`
	Content  map[string]mediaType `json:"content"`
}

type response struct {
	Description string               `json:"description"`
	Content     map[string]mediaType `json:"content,omitempty"`
}

type mediaType struct {
	Schema schema `json:"schema"`
}

type components struct {
	Schemas         map[string]schema         `json:"schemas"`
	SecuritySchemes map[string]securityScheme `json:"securitySchemes"`
}

type securityScheme struct {
	Type        string `json:"type"`
	Scheme      string `json:"scheme"`
	Description string `json:"description"`
}

const keyScheme = "apiKey" // the name of the one security scheme

func (a *API) openAPI(r *request) error { return r.JSON(http.StatusOK, a.description) }

// describe returns the document for the route table.
func describe(routes []route) openAPI {
	schemas := schemas{}
	d := openAPI{
		OpenAPI: "3.1.0",
		Info:    info{Title: "Logboom", Version: telemetry.Version()},
		Paths:   map[string]map[string]operation{},
		Components: components{Schemas: schemas, SecuritySchemes: map[string]securityScheme{
			keyScheme: {Type: "http", Scheme: "bearer", Description: "An API key."},
		}},
		Security: []map[string][]string{{keyScheme: {}}},
	}
	schemas.addProblem()
	for _, r := range routes {
		path := template(apiRoot + r.path)
		if d.Paths[path] == nil {
			d.Paths[path] = map[string]operation{}
		}
		d.Paths[path][strings.ToLower(r.method)] = schemas.operation(r)
	}
	return d
}

// template returns a route's path in the form of OpenAPI: {project} for :project.
func template(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if name, found := strings.CutPrefix(part, ":"); found {
			parts[i] = "{" + name + "}"
		}
	}
	return strings.Join(parts, "/")
}

func (s schemas) operation(r route) operation {
	o := operation{
		OperationID: strings.ToLower(r.method) + strings.NewReplacer("/", "_", ":", "", ".", "_").Replace(r.path),
		Summary:     r.summary,
		Description: "Role: " + r.access().String() + ".",
		Parameters:  parametersOf(r),
		Responses:   map[string]response{},
	}
	success := response{Description: http.StatusText(r.status), Content: map[string]mediaType{}}
	if r.answer != nil {
		success.Content["application/json"] = mediaType{Schema: s.of(r.answer)}
	}
	for _, media := range r.media {
		success.Content[media] = mediaType{Schema: schema{Type: "string"}}
	}
	o.Responses[strconv.Itoa(r.status)] = success
	for _, status := range r.problems() {
		o.Responses[strconv.Itoa(status)] = response{
			Description: http.StatusText(status),
			Content:     map[string]mediaType{problem.ContentType: {Schema: reference("Problem")}},
		}
	}
	if r.body != nil {
		o.RequestBody = &requestBody{Required: true, Content: map[string]mediaType{"application/json": {Schema: s.body(r)}}}
	}
	if r.access() == admin.Anyone {
		o.Security = &[]map[string][]string{}
	}
	return o
}

// body describes a route's body, which may leave out fields that an answer has.
func (s schemas) body(r route) schema {
	described := s[strings.TrimPrefix(s.of(r.body).Ref, schemaRoot)]
	described.Required = r.required
	return described
}

// problems returns the statuses of the route's problems.
func (r route) problems() []int {
	statuses := append([]int{http.StatusInternalServerError}, r.refuses...)
	if r.access() != admin.Anyone {
		statuses = append(statuses, http.StatusUnauthorized, http.StatusServiceUnavailable)
	}
	if r.access() >= admin.Manager {
		statuses = append(statuses, http.StatusForbidden)
	}
	if strings.Contains(r.path, ":project") {
		statuses = append(statuses, http.StatusNotFound)
	}
	if r.body != nil {
		statuses = append(statuses, http.StatusBadRequest, http.StatusRequestTimeout,
			http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	return statuses
}

func parametersOf(r route) []parameter {
	var list []parameter
	for part := range strings.SplitSeq(r.path, "/") {
		if name, found := strings.CutPrefix(part, ":"); found {
			list = append(list, parameter{Name: name, In: "path", Required: true, Description: parameterNote(name), Schema: schema{Type: "string"}})
		}
	}
	for _, name := range r.query {
		p := parameter{Name: name, In: "query", Description: parameterNote(name), Schema: schema{Type: "string"}}
		switch name {
		case "limit", "buckets", "before", "after":
			p.Schema.Type = "integer"
		}
		list = append(list, p)
	}
	return list
}

// parameterNote describes a parameter of the path or query, for all routes that
// have it.
func parameterNote(name string) string {
	switch name {
	case "project":
		return "The project's name."
	case "token":
		return "The token's ID."
	case "id":
		return "The ID of the dead letter, or of the log."
	case "from":
		return "The beginning, included: RFC 3339, or the epoch in s, ms, us or ns."
	case "to":
		return "The end, not included, in the same form as from."
	case "q":
		return "A query: words, \"text\", /expressions/ and field:value terms; see docs/querying.md."
	case "state":
		return "A notification's state: queued, attempt, delivered, failed or coalesced; by default all."
	case "limit":
		return "The largest number of items on the page: 1 to 1000, by default 100."
	case "cursor":
		return "The field next of the previous page."
	case "buckets":
		return "The number of buckets, all of the same length: 1 to 1000, by default 60."
	case "before", "after":
		return "The number of logs on this side: 0 to 500, by default 20."
	case "format":
		return "ndjson (one JSON object per line) or csv."
	}
	return ""
}

// schema is a JSON Schema, with the parts that this API needs. Type is a string,
// or several strings if null is allowed.
type schema struct {
	Ref                  string            `json:"$ref,omitempty"`
	Type                 any               `json:"type,omitempty"`
	Format               string            `json:"format,omitempty"`
	Description          string            `json:"description,omitempty"`
	Minimum              *int              `json:"minimum,omitempty"`
	Properties           map[string]schema `json:"properties,omitempty"`
	Required             []string          `json:"required,omitempty"`
	Items                *schema           `json:"items,omitempty"`
	AdditionalProperties *schema           `json:"additionalProperties,omitempty"`
}

// schemas are the schemas of structs, by name.
type schemas map[string]schema

// schemaRoot is where a document keeps its named schemas.
const schemaRoot = "#/components/schemas/"

func reference(name string) schema { return schema{Ref: schemaRoot + name} }

// of describes the JSON that encoding/json makes of a type. Structs are described
// once, under the name of their type.
func (s schemas) of(t reflect.Type) schema {
	if t == reflect.TypeFor[time.Time]() {
		return schema{Type: "string", Format: "date-time"}
	}
	if t.Kind() == reflect.Pointer {
		return orNull(s.of(t.Elem()))
	}
	if t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return schema{Type: "string"}
	}
	switch t.Kind() {
	case reflect.Slice:
		items := s.of(t.Elem())
		return schema{Type: "array", Items: &items}
	case reflect.Map:
		values := s.of(t.Elem())
		return schema{Type: "object", AdditionalProperties: &values}
	case reflect.Struct:
		return s.named(t)
	}
	return scalar(t)
}

func scalar(t reflect.Type) schema {
	zero := reflect.Zero(t)
	switch {
	case zero.CanUint():
		return schema{Type: "integer", Minimum: new(int)}
	case zero.CanInt():
		return schema{Type: "integer"}
	case t.Kind() == reflect.Bool:
		return schema{Type: "boolean"}
	case t.Kind() == reflect.String:
		return schema{Type: "string"}
	}
	return schema{} // anything
}

// orNull allows null as well.
func orNull(one schema) schema {
	if name, ok := one.Type.(string); ok {
		one.Type = []string{name, "null"}
	}
	return one
}

// named adds the schema of a struct, if it is missing, and returns a reference to
// it.
func (s schemas) named(t reflect.Type) schema {
	name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
	if _, known := s[name]; known {
		return reference(name)
	}
	s[name] = schema{} // for a struct that contains itself
	notes := fieldNotes()
	described := schema{Type: "object", Properties: map[string]schema{}}
	for _, f := range reflect.VisibleFields(t) {
		key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || key == "" || key == "-" {
			continue
		}
		property := s.of(f.Type)
		property.Description = notes[name+"."+key]
		described.Properties[key] = property
		if !strings.Contains(options, "omitempty") {
			described.Required = append(described.Required, key)
		}
	}
	s[name] = described
	return reference(name)
}

// addProblem describes the answer to every error, RFC 9457.
func (s schemas) addProblem() {
	text, number := schema{Type: "string"}, schema{Type: "integer"}
	s["Problem"] = schema{
		Type: "object",
		Properties: map[string]schema{
			"type": text, "title": text, "status": number, "code": text, "detail": text,
			"field": text, "index": number, "offset": number, "request_id": text,
		},
		Required: []string{"type", "title", "status", "code", "detail", "request_id"},
	}
}

// fieldNotes describes fields whose name is not enough.
func fieldNotes() map[string]string {
	return map[string]string{
		"Project.id":              "The ID in stored rows. A later project with the same name has another ID.",
		"Project.changed":         "The time of the last change of the settings.",
		"NewToken.token":          "The value. Only this answer shows it.",
		"DeadLetter.reason":       "A short code for why the message could not be stored.",
		"DeadLetter.stream":       "The stream that the message came from.",
		"DeadLetter.seq":          "The sequence number in the stream. 0: the message was never on a stream and cannot be replayed.",
		"DeadLetter.time":         "The time when the queue stored the message.",
		"DeadLetter.bytes":        "The size of the message, whose content is not shown.",
		"DeadLetterPage.next":     "Cursor of the next page. Empty on the last page.",
		"ReplayedLetter.state":    "replayed: the message is on its stream again, and the letter is deleted.",
		"ProjectPage.next":        "Cursor of the next page. Empty on the last page.",
		"TokenPage.next":          "Cursor of the next page. Empty on the last page.",
		"UsageAnswer.hours":       "By the time of receipt, the oldest first. Hours without records are left out.",
		"UsageHour.accepted":      "Accepted records that have left the queue: stored, or dropped as dead letters.",
		"UsageHour.stored":        "Logs and events, as counted with their insert.",
		"UsageHour.dropped":       "Records that were not stored, by reason. For rate, daily_records and monthly_bytes: at least so many records were refused for that quota and never accepted. All others became dead letters.",
		"UsageAmount.bytes":       "Of the records' text before compression.",
		"Histogram.seconds":       "The length of a bucket.",
		"Facets.total":            "The number of all logs.",
		"KeyFacet.count":          "The number of logs that have the key.",
		"KeyFacet.many":           "The key has too many values to count, so that none are listed.",
		"KeyFacet.values":         "The ten most frequent values.",
		"LogContext.before":       "Logs of the same application and host, the oldest first.",
		"Settings.retention_days": "How many days records that are sent from now on are stored: 1 to 3650.",
	}
}
