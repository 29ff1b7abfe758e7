package api

import (
	"net/http"
	"reflect"

	"github.com/logboom/logboom/pkg/admin"
	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/project"
)

// route is one operation: how it is reached, what it does, and how openapi.json
// describes it. There is no other way into the API.
type route struct {
	method    string
	path      string // below apiRoot
	operation admin.Operation
	handle    func(*request) error
	summary   string
	query     []string     // names of the parameters; parameterNote describes them
	body      reflect.Type // nil: none
	required  []string     // fields that the body must have; all others are optional
	status    int          // of a success
	answer    reflect.Type // nil: no body
	media     []string     // of a success that is not JSON
	refuses   []int        // statuses beside those that every route may answer
}

func (r route) access() admin.Access { return r.operation.Access() }

// routes is the route table.
func (a *API) routes() []route {
	page := []string{"limit", "cursor"}
	search := []string{"q", "from", "to", "limit", "cursor"}
	bad := []int{http.StatusBadRequest}
	return []route{
		{
			method: http.MethodPost, path: "/projects", operation: admin.CreateProject, handle: a.createProject,
			summary: "Create a project.", body: reflect.TypeFor[nameBody](), required: []string{"name"},
			status: http.StatusCreated, answer: reflect.TypeFor[project.Project](), refuses: []int{http.StatusConflict},
		},
		{
			method: http.MethodGet, path: "/projects", operation: admin.ListProjects, handle: a.listProjects,
			summary: "List the projects that the key may see, by name.", query: page,
			status: http.StatusOK, answer: reflect.TypeFor[projectPage](), refuses: []int{http.StatusBadRequest},
		},
		{
			method: http.MethodGet, path: "/projects/:project", operation: admin.ReadProject, handle: a.showProject,
			summary: "Show a project.",
			status:  http.StatusOK, answer: reflect.TypeFor[project.Project](),
		},
		{
			method: http.MethodDelete, path: "/projects/:project", operation: admin.DeleteProject, handle: a.deleteProject,
			summary: "Delete a project. Its tokens are revoked at once; its data is deleted in the background.",
			status:  http.StatusNoContent,
		},
		{
			method: http.MethodPost, path: "/projects/:project/tokens", operation: admin.ChangeTokens, handle: a.createToken,
			summary: "Create a token. Only this answer shows its value.", body: reflect.TypeFor[nameBody](), required: []string{"name"},
			status: http.StatusCreated, answer: reflect.TypeFor[newToken](), refuses: []int{http.StatusConflict},
		},
		{
			method: http.MethodGet, path: "/projects/:project/tokens", operation: admin.ReadTokens, handle: a.listTokens,
			summary: "List a project's tokens, the oldest first.", query: page,
			status: http.StatusOK, answer: reflect.TypeFor[tokenPage](), refuses: []int{http.StatusBadRequest},
		},
		{
			method: http.MethodDelete, path: "/projects/:project/tokens/:token", operation: admin.ChangeTokens, handle: a.deleteToken,
			summary: "Revoke a token. It is refused everywhere within 2 seconds.",
			status:  http.StatusNoContent,
		},
		{
			method: http.MethodGet, path: "/projects/:project/settings", operation: admin.ReadSettings, handle: a.settings,
			summary: "Show a project's settings.",
			status:  http.StatusOK, answer: reflect.TypeFor[project.Settings](),
		},
		{
			method: http.MethodPut, path: "/projects/:project/settings", operation: admin.ChangeSettings, handle: a.changeSettings,
			summary: "Change settings. A setting that is not given keeps its value.", body: reflect.TypeFor[project.Settings](),
			status: http.StatusOK, answer: reflect.TypeFor[project.Settings](),
		},
		{
			method: http.MethodGet, path: "/projects/:project/alerts", operation: admin.ReadAlerts, handle: a.alerts,
			summary: "Show where a project's alerts go. Of the address, only the host and the last four characters are shown.",
			status:  http.StatusOK, answer: reflect.TypeFor[alertsBody](),
		},
		{
			method: http.MethodPut, path: "/projects/:project/alerts", operation: admin.ChangeAlerts, handle: a.changeAlerts,
			summary: "Change alerts. A field that is not given keeps its value; an empty address turns alerts off.", body: reflect.TypeFor[alertsBody](),
			status: http.StatusOK, answer: reflect.TypeFor[alertsBody](),
		},
		{
			method: http.MethodPost, path: "/projects/:project/alerts/test", operation: admin.ChangeAlerts, handle: a.testAlerts,
			summary: "Send a test message to where the project's alerts go, and return the result.",
			status:  http.StatusOK, answer: reflect.TypeFor[testResult](), refuses: []int{http.StatusBadRequest},
		},
		{
			method: http.MethodGet, path: "/projects/:project/alerts/secret", operation: admin.ChangeAlerts, handle: a.alertsSecret,
			summary: "Show the secret with which messages of the generic format are signed (Standard Webhooks).",
			status:  http.StatusOK, answer: reflect.TypeFor[signingSecret](),
		},
		{
			method: http.MethodGet, path: "/projects/:project/deliveries", operation: admin.ReadDeliveries, handle: a.deliveries,
			summary: "List notifications, the last queued first: state, attempts and the service's last answer.",
			query:   []string{"state", "from", "to", "limit", "cursor"},
			status:  http.StatusOK, answer: reflect.TypeFor[clickhouse.DeliveryPage](), refuses: []int{http.StatusBadRequest},
		},
		{
			method: http.MethodGet, path: "/projects/:project/usage", operation: admin.ReadUsage, handle: a.usage,
			summary: "Count records by hour of receipt: accepted, stored, and dropped by reason.", query: []string{"from", "to"},
			status: http.StatusOK, answer: reflect.TypeFor[usageAnswer](), refuses: []int{http.StatusBadRequest},
		},
		{
			method: http.MethodGet, path: "/dead-letters", operation: admin.ManageDeadLetters, handle: a.listLetters,
			summary: "List the messages that could not be stored, the oldest first, without their content.", query: page,
			status: http.StatusOK, answer: reflect.TypeFor[deadLetterPage](), refuses: []int{http.StatusBadRequest},
		},
		{
			method: http.MethodPost, path: "/dead-letters/:id/replay", operation: admin.ManageDeadLetters, handle: a.replayLetter,
			summary: "Publish a dead letter's message again on the stream that it came from, and delete the letter.",
			status:  http.StatusOK, answer: reflect.TypeFor[replayedLetter](), refuses: []int{http.StatusNotFound, http.StatusConflict},
		},
		{
			method: http.MethodGet, path: "/openapi.json", operation: admin.DescribeAPI, handle: a.openAPI,
			summary: "Describe this API.",
			status:  http.StatusOK, answer: reflect.TypeFor[map[string]any](),
		},
		{
			method: http.MethodGet, path: "/projects/:project/logs", operation: admin.ReadRecords, handle: a.logs,
			summary: "Read logs, newest first.", query: search,
			status: http.StatusOK, answer: reflect.TypeFor[clickhouse.LogPage](), refuses: bad,
		},
		{
			method: http.MethodGet, path: "/projects/:project/events", operation: admin.ReadRecords, handle: a.events,
			summary: "Read events, newest first.", query: search,
			status: http.StatusOK, answer: reflect.TypeFor[clickhouse.EventPage](), refuses: bad,
		},
		{
			method: http.MethodGet, path: "/projects/:project/histogram", operation: admin.ReadRecords, handle: a.histogram,
			summary: "Count logs by time and severity. Without from: of the last day.", query: []string{"q", "from", "to", "buckets"},
			status: http.StatusOK, answer: reflect.TypeFor[clickhouse.Histogram](), refuses: bad,
		},
		{
			method: http.MethodGet, path: "/projects/:project/facets", operation: admin.ReadRecords, handle: a.facets,
			summary: "Count the most frequent values of logs. The counts are exact.", query: []string{"q", "from", "to"},
			status: http.StatusOK, answer: reflect.TypeFor[clickhouse.Facets](), refuses: bad,
		},
		{
			method: http.MethodGet, path: "/projects/:project/logs/:id/context", operation: admin.ReadRecords, handle: a.logContext,
			summary: "Show a log and the logs of the same application and host before and after it.", query: []string{"before", "after"},
			status: http.StatusOK, answer: reflect.TypeFor[clickhouse.LogContext](), refuses: bad,
		},
		{
			method: http.MethodGet, path: "/projects/:project/logs/export", operation: admin.ReadRecords, handle: a.export,
			summary: "Read up to a million logs as one stream, newest first.", query: []string{"q", "from", "to", "format"},
			status: http.StatusOK, media: []string{mediaNDJSON, mediaCSV}, refuses: bad,
		},
		{
			method: http.MethodGet, path: "/projects/:project/tail", operation: admin.ReadRecords, handle: a.tail,
			summary: "Follow logs as they are stored: server-sent events log, dropped and problem. Last-Event-ID continues a broken connection.", query: []string{"q"},
			status: http.StatusOK, media: []string{mediaEvents}, refuses: bad,
		},
	}
}
