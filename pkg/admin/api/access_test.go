package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/logboom/logboom/pkg/admin"
	"github.com/logboom/logboom/pkg/admin/admintest"
	"github.com/logboom/logboom/pkg/people"
)

// table is every route with its access. Change it with care.
const table = `
POST   /projects admin of all projects
GET    /projects member
GET    /projects/:project member
DELETE /projects/:project admin
POST   /projects/:project/tokens admin
GET    /projects/:project/tokens member
DELETE /projects/:project/tokens/:token admin
GET    /projects/:project/settings member
PUT    /projects/:project/settings admin
GET    /projects/:project/alerts member
PUT    /projects/:project/alerts admin
POST   /projects/:project/alerts/test admin
GET    /projects/:project/alerts/secret admin
GET    /projects/:project/deliveries member
GET    /projects/:project/usage member
GET    /dead-letters admin of all projects
POST   /dead-letters/:id/replay admin of all projects
GET    /openapi.json anyone
GET    /projects/:project/logs member
GET    /projects/:project/events member
GET    /projects/:project/histogram member
GET    /projects/:project/facets member
GET    /projects/:project/logs/:id/context member
GET    /projects/:project/logs/export member
GET    /projects/:project/tail member
`

func TestRouteTableNamesTheAccessOfEveryRoute(t *testing.T) {
	t.Parallel()
	got := "\n"
	for _, r := range (&API{}).routes() {
		got += fmt.Sprintf("%-6s %s %s\n", r.method, r.path, r.access())
	}
	if got != table {
		t.Errorf("the route table is now%s", got)
	}
}

// address returns a route's path for a project, with a token and a dead letter
// that do not exist.
func (r route) address(name string) string {
	return apiRoot + strings.NewReplacer(":project", name, ":token", strings.Repeat("0", 32), ":id", "1").Replace(r.path)
}

func TestEveryRouteRequiresItsRole(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.server()
	b.Project(t, "shop")
	keys := map[string]string{"member": b.apiKey(t, people.RoleMember), "admin": b.key}
	for _, r := range s.routes() {
		if r.access() == admin.Anyone {
			continue
		}
		for _, key := range []string{"", "lgk_wrong", b.key + "x", b.key[1:]} {
			if answer := send(s, r.method, r.address("shop"), key, "{}"); answer.Code != http.StatusUnauthorized {
				t.Errorf("%s %s with a bad key: answer %d", r.method, r.path, answer.Code)
			}
		}
		for role, key := range keys {
			path := r.address("nobody-s") // a missing project answers 404 before the role is checked
			if !strings.Contains(r.path, ":project") {
				path = r.address("")
			}
			answer := send(s, r.method, path, key, "{}")
			checkDescribed(t, s, r.method, path, answer)
			if strings.Contains(r.path, ":project") && answer.Code != http.StatusNotFound {
				t.Errorf("%s %s of a project that does not exist: %s is answered %d", r.method, r.path, role, answer.Code)
			}
			if role == "member" && r.access() != admin.Member {
				answer = send(s, r.method, r.address("shop"), key, "{}")
				if answer.Code != http.StatusForbidden || !strings.Contains(answer.Body.String(), `"forbidden"`) {
					t.Errorf("%s %s: a member is answered %d: %s", r.method, r.path, answer.Code, answer.Body)
				}
			}
		}
	}
	if _, err := b.Projects.Project(admintest.Context(t), "shop"); err != nil {
		t.Errorf("something was changed: %v", err)
	}
}

// TestKeyOfOneProjectNeverReachesAnother requests every route with keys that are
// limited to one project, in that project and in another.
func TestKeyOfOneProjectNeverReachesAnother(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.server()
	names := []string{"mine", "theirs"}
	for _, name := range names {
		b.Project(t, name)
	}
	for _, own := range names {
		for _, role := range []people.Role{people.RoleMember, people.RoleAdmin} {
			key := b.apiKey(t, role, own)
			for _, asked := range names {
				for _, r := range s.routes() {
					if r.access() == admin.Anyone || r.path == "/projects/:project" && r.method == http.MethodDelete && asked == own && role == people.RoleAdmin {
						continue // the project is needed for the next routes
					}
					if slices.Contains(r.media, mediaEvents) && asked == own {
						continue // it does not end; TestTail… cover it
					}
					answer := send(s, r.method, r.address(asked), key, `{"retention_days":30}`)
					checkDescribed(t, s, r.method, r.address(asked), answer)
					if want := r.expected(own == asked, role); want != answer.Code {
						t.Errorf("%s key of %s: %s %s: answer %d, want %d", role, own, r.method, r.address(asked), answer.Code, want)
					}
				}
			}
			if list := send(s, http.MethodGet, apiRoot+"/projects", key, ""); strings.Count(list.Body.String(), `"name"`) != 1 || !strings.Contains(list.Body.String(), `"`+own+`"`) {
				t.Errorf("%s key of %s lists %s", role, own, list.Body)
			}
		}
	}
}

// expected returns the status that a limited key gets for a body of settings.
// Routes that the key may use but that need another body answer 400.
func (r route) expected(own bool, role people.Role) int {
	switch {
	case r.access() == admin.Owner:
		return http.StatusForbidden
	case strings.Contains(r.path, ":project") && !own:
		return http.StatusNotFound
	case r.access() == admin.Manager && role == people.RoleMember:
		return http.StatusForbidden
	case r.method == http.MethodDelete, strings.HasSuffix(r.path, "/:id/context"):
		return http.StatusNotFound // the token and the log do not exist
	case r.method == http.MethodPost, r.method == http.MethodPut && strings.HasSuffix(r.path, "/alerts"):
		return http.StatusBadRequest
	}
	return http.StatusOK
}

func TestPathsWithoutARouteRequireAKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.server()
	if answer := send(s, http.MethodGet, "/api/v1/nothing", "", ""); answer.Code != http.StatusUnauthorized {
		t.Errorf("without a key: answer %d", answer.Code)
	}
	if answer := send(s, http.MethodGet, "/api/v1/nothing", b.key, ""); answer.Code != http.StatusNotFound {
		t.Errorf("with a key: answer %d", answer.Code)
	}
	if answer := send(s, http.MethodPatch, "/api/v1/projects", "", ""); answer.Code != http.StatusUnauthorized {
		t.Errorf("another method without a key: answer %d", answer.Code)
	}
	if answer := send(s, http.MethodPatch, "/api/v1/projects", b.key, ""); answer.Code != http.StatusMethodNotAllowed || answer.Header().Get("Allow") == "" {
		t.Errorf("another method: answer %d, %v", answer.Code, answer.Header())
	}
}
