package admin

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/logboom/logboom/pkg/problem"
	"github.com/logboom/logboom/pkg/telemetry"
)

// openAPI is an OpenAPI 3.1 document, as far as this API needs one. It is made
// of the route table and of the Go types that are answered, so that it cannot
// say anything else than they do.
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

func (s *Server) openAPI(r *request) error { return r.JSON(http.StatusOK, s.description) }

// describe makes the document of the route table.
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

// template spells a route's path as OpenAPI does: {project} for :project.
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
		Description: "Role: " + r.access.String() + ".",
		Parameters:  parametersOf(r),
		Responses:   map[string]response{},
	}
	good := response{Description: http.StatusText(r.status)}
	if r.answer != nil {
		good.Content = map[string]mediaType{"application/json": {Schema: s.of(r.answer)}}
	}
	for _, media := range r.media {
		good.Content = withMedia(good.Content, media)
	}
	o.Responses[strconv.Itoa(r.status)] = good
	for _, status := range r.problems() {
		o.Responses[strconv.Itoa(status)] = response{
			Description: http.StatusText(status),
			Content:     map[string]mediaType{problem.ContentType: {Schema: reference("Problem")}},
		}
	}
	if r.body != nil {
		o.RequestBody = &requestBody{Required: true, Content: map[string]mediaType{"application/json": {Schema: s.sent(r)}}}
	}
	if r.access == anyone {
		o.Security = &[]map[string][]string{}
	}
	return o
}

// withMedia adds a media type whose text is described in words.
func withMedia(content map[string]mediaType, media string) map[string]mediaType {
	if content == nil {
		content = map[string]mediaType{}
	}
	content[media] = mediaType{Schema: schema{Type: "string"}}
	return content
}

// sent describes a route's body, which needs fewer fields than an answer has.
func (s schemas) sent(r route) schema {
	name := strings.TrimPrefix(s.of(r.body).Ref, schemaRoot)
	described := s[name]
	described.Required = r.needs
	return described
}

// problems are the statuses of the route's refusals.
func (r route) problems() []int {
	statuses := append([]int{http.StatusInternalServerError}, r.refuses...)
	if r.access != anyone {
		statuses = append(statuses, http.StatusUnauthorized, http.StatusServiceUnavailable)
	}
	if r.access == manager || r.access == owner {
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

// parameterNote says what a parameter of the path or query is, once for all
// routes that take it.
func parameterNote(name string) string {
	switch name {
	case "project":
		return "The project's name."
	case "token":
		return "The token's ID."
	case "id":
		return "The ID of the dead letter, or of the log."
	case "from":
		return "The begin, included: RFC 3339 or the epoch in s, ms, us or ns."
	case "to":
		return "The end, not included: as from."
	case "q":
		return "A query: words, \"text\", /expressions/ and field:value terms; see docs/querying.md."
	case "state":
		return "A notification's state: queued, attempt, delivered, failed or coalesced; by default all."
	case "limit":
		return "How many a page holds at most: 1 to 1000, by default 100."
	case "cursor":
		return "The next of the page before."
	case "buckets":
		return "How many equally long ones: 1 to 1000, by default 60."
	case "before", "after":
		return "How many logs on this side: 0 to 500, by default 20."
	case "format":
		return "ndjson, one JSON object a line, or csv."
	}
	return ""
}
