package admin

import (
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/project"
)

// apiRoot is where the JSON API begins.
const apiRoot = "/api/v1"

// route is one operation: how it is reached, who may use it, what it does, and
// how openapi.json describes it. There is no other way into the API.
type route struct {
	method  string
	path    string // below apiRoot
	access  access
	handle  func(*request) error
	summary string
	query   []string     // names of parameters; parameters() describes them
	body    reflect.Type // nil: none
	needs   []string     // fields that the body must have; without the others it is taken too
	status  int          // of the good answer
	answer  reflect.Type // nil: no body
	media   []string     // of the good answer, where that is no JSON
	refuses []int        // statuses beside those that every route may answer
}

// routes is the route table.
func (s *Server) routes() []route {
	page := []string{"limit", "cursor"}
	return append([]route{
		{
			method: http.MethodPost, path: "/projects", access: owner, handle: s.createProject,
			summary: "Make a project.", body: reflect.TypeFor[nameBody](), needs: []string{"name"},
			status: http.StatusCreated, answer: reflect.TypeFor[project.Project](), refuses: []int{http.StatusConflict},
		},
		{
			method: http.MethodGet, path: "/projects", access: member, handle: s.listProjects,
			summary: "List the projects that the key may see, by name.", query: page,
			status: http.StatusOK, answer: reflect.TypeFor[projectPage](), refuses: []int{http.StatusBadRequest},
		},
		{
			method: http.MethodGet, path: "/projects/:project", access: member, handle: s.oneProject,
			summary: "Show a project.",
			status:  http.StatusOK, answer: reflect.TypeFor[project.Project](),
		},
		{
			method: http.MethodDelete, path: "/projects/:project", access: manager, handle: s.deleteProject,
			summary: "Delete a project: its tokens at once, its data in the background.",
			status:  http.StatusNoContent,
		},
		{
			method: http.MethodPost, path: "/projects/:project/tokens", access: manager, handle: s.createToken,
			summary: "Make a token. Its value is shown in this answer only.", body: reflect.TypeFor[nameBody](), needs: []string{"name"},
			status: http.StatusCreated, answer: reflect.TypeFor[newToken](), refuses: []int{http.StatusConflict},
		},
		{
			method: http.MethodGet, path: "/projects/:project/tokens", access: member, handle: s.listTokens,
			summary: "List a project's tokens, the oldest first.", query: page,
			status: http.StatusOK, answer: reflect.TypeFor[tokenPage](), refuses: []int{http.StatusBadRequest},
		},
		{
			method: http.MethodDelete, path: "/projects/:project/tokens/:token", access: manager, handle: s.deleteToken,
			summary: "Revoke a token: refused everywhere within 2 s.",
			status:  http.StatusNoContent,
		},
		{
			method: http.MethodGet, path: "/projects/:project/settings", access: member, handle: s.settings,
			summary: "Show a project's settings.",
			status:  http.StatusOK, answer: reflect.TypeFor[project.Settings](),
		},
		{
			method: http.MethodPut, path: "/projects/:project/settings", access: manager, handle: s.changeSettings,
			summary: "Change settings; those that are not given keep their value.", body: reflect.TypeFor[project.Settings](),
			status: http.StatusOK, answer: reflect.TypeFor[project.Settings](),
		},
		{
			method: http.MethodGet, path: "/projects/:project/alerts", access: member, handle: s.alerts,
			summary: "Show where a project's alerts go: of the address, host and last four characters.",
			status:  http.StatusOK, answer: reflect.TypeFor[alertsBody](),
		},
		{
			method: http.MethodPut, path: "/projects/:project/alerts", access: manager, handle: s.changeAlerts,
			summary: "Change alerts; what is not given keeps its value, an empty address turns them off.", body: reflect.TypeFor[alertsBody](),
			status: http.StatusOK, answer: reflect.TypeFor[alertsBody](),
		},
		{
			method: http.MethodPost, path: "/projects/:project/alerts/test", access: manager, handle: s.testAlerts,
			summary: "Send a test message to where the project's alerts go, and say what became of it.",
			status:  http.StatusOK, answer: reflect.TypeFor[testResult](), refuses: []int{http.StatusBadRequest},
		},
		{
			method: http.MethodGet, path: "/projects/:project/alerts/secret", access: manager, handle: s.alertsSecret,
			summary: "Show the secret that messages of the generic format are signed with (Standard Webhooks).",
			status:  http.StatusOK, answer: reflect.TypeFor[signingSecret](),
		},
		{
			method: http.MethodGet, path: "/projects/:project/deliveries", access: member, handle: s.deliveries,
			summary: "List notifications by when they were queued, newest first: state, attempts, and the service's last answer.",
			query:   []string{"state", "from", "to", "limit", "cursor"},
			status:  http.StatusOK, answer: reflect.TypeFor[deliveryPage](), refuses: []int{http.StatusBadRequest},
		},
		{
			method: http.MethodGet, path: "/projects/:project/usage", access: member, handle: s.usage,
			summary: "Count records by hour of receipt: accepted, stored, and dropped by reason.", query: []string{"from", "to"},
			status: http.StatusOK, answer: reflect.TypeFor[usageAnswer](), refuses: []int{http.StatusBadRequest},
		},
		{
			method: http.MethodGet, path: "/dead-letters", access: owner, handle: s.listLetters,
			summary: "List the messages that could not be stored, the oldest first, without what they hold.", query: page,
			status: http.StatusOK, answer: reflect.TypeFor[deadLetterPage](), refuses: []int{http.StatusBadRequest},
		},
		{
			method: http.MethodPost, path: "/dead-letters/:id/replay", access: owner, handle: s.replayLetter,
			summary: "Put a dead letter's message back on the stream that it came from, and remove the letter.",
			status:  http.StatusOK, answer: reflect.TypeFor[replayedLetter](), refuses: []int{http.StatusNotFound, http.StatusConflict},
		},
		{
			method: http.MethodGet, path: "/openapi.json", access: anyone, handle: s.openAPI,
			summary: "Describe this API.",
			status:  http.StatusOK, answer: reflect.TypeFor[map[string]any](),
		},
	}, s.recordRoutes()...)
}

// lay registers the routes. Every path below apiRoot needs a key, also one that
// is no route, except for what anyone may use.
func (s *Server) lay(routes []route) {
	open := map[string]bool{}
	for _, r := range routes {
		open[apiRoot+r.path] = r.access == anyone
		s.echo.Add(r.method, apiRoot+r.path, s.guarded(r))
	}
	s.echo.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		private := quiet(s.identify(next))
		return func(c echo.Context) error {
			if open[c.Path()] || !strings.HasPrefix(c.Request().URL.Path, apiRoot+"/") {
				return next(c)
			}
			return private(c)
		}
	})
}

// quiet keeps what only a key's holder may see out of caches.
func quiet(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Response().Header().Set("Cache-Control", "no-store")
		c.Response().Header().Set("X-Content-Type-Options", "nosniff")
		return next(c)
	}
}

// Bounds of a page.
const (
	defaultLimit = 100
	maxLimit     = 1000
)

// readLimit is how many a page may hold.
func readLimit(c echo.Context) (int, error) {
	text := c.QueryParam("limit")
	if text == "" {
		return defaultLimit, nil
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 || limit > maxLimit {
		return 0, &fieldError{"limit", "not a number from 1 to " + strconv.Itoa(maxLimit)}
	}
	return limit, nil
}
