package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/logboom/logboom/pkg/admin"
	"github.com/logboom/logboom/pkg/admin/admintest"
	"github.com/logboom/logboom/pkg/people"
)

// table is every page with its access. Change it with care.
const table = `
GET  / member
GET  /sign-in anyone
POST /sign-in anyone
POST /sign-out anyone
GET  /sign-in/company anyone
GET  /sign-in/company/back anyone
GET  /set-up anyone
POST /set-up anyone
POST /theme anyone
GET  /account member
POST /account member
POST /account/password member
GET  /projects member
POST /projects admin of all projects
GET  /new-project admin of all projects
GET  /projects/:project member
GET  /projects/:project/start member
POST /projects/:project/start admin
GET  /projects/:project/start/state member
GET  /projects/:project/settings member
POST /projects/:project/settings admin
GET  /projects/:project/settings/tokens member
POST /projects/:project/settings/tokens admin
GET  /projects/:project/settings/tokens/:token/revoke admin
POST /projects/:project/settings/tokens/:token/revoke admin
GET  /projects/:project/settings/alerts member
POST /projects/:project/settings/alerts admin
POST /projects/:project/settings/alerts/off admin
GET  /projects/:project/settings/quotas member
POST /projects/:project/settings/quotas admin
GET  /projects/:project/settings/delete admin
POST /projects/:project/settings/delete admin
GET  /installation/users admin of all projects
POST /installation/users admin of all projects
POST /installation/users/role admin of all projects
GET  /installation/users/password admin of all projects
POST /installation/users/password admin of all projects
GET  /installation/users/delete admin of all projects
POST /installation/users/delete admin of all projects
GET  /installation/keys admin of all projects
POST /installation/keys admin of all projects
GET  /installation/keys/:key/revoke admin of all projects
POST /installation/keys/:key/revoke admin of all projects
GET  /installation/audit admin of all projects
GET  /projects/:project/logs member
GET  /projects/:project/logs/edit member
GET  /projects/:project/logs/complete member
GET  /projects/:project/logs/rows member
GET  /projects/:project/logs/tail member
GET  /projects/:project/logs/:id/fields member
POST /projects/:project/logs/views member
POST /projects/:project/logs/views/delete member
GET  /projects/:project/logs/:id/context member
GET  /projects/:project/events member
GET  /operations admin of all projects
GET  /operations/dead-letters/:letter admin of all projects
POST /operations/dead-letters/replay admin of all projects
`

func TestRouteTableNamesTheAccessOfEveryRoute(t *testing.T) {
	t.Parallel()
	got := "\n"
	for _, r := range (&Pages{}).routes() {
		got += fmt.Sprintf("%-4s %s %s\n", r.method, r.path, r.operation.Access())
	}
	if got != table {
		t.Errorf("the route table is now%s", got)
	}
}

// TestEveryPageRequiresItsRole requests every route as different people, in their
// own project and in another.
func TestEveryPageRequiresItsRole(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.pages.service.StopTails() // a live tail ends after its first read
	mine, theirs := s.Project(t, "mine"), s.Project(t, "theirs")
	people := map[string]*visitor{
		"anonymous":       s.visitor(t),
		"member of none":  s.as(t, s.user(t, "none@example.org", people.RoleMember)),
		"member":          s.as(t, s.user(t, "member@example.org", people.RoleMember, mine)),
		"admin of a few":  s.as(t, s.user(t, "few@example.org", people.RoleAdmin, mine)),
		"admin of theirs": s.as(t, s.user(t, "their@example.org", people.RoleAdmin, theirs)),
		"owner":           s.as(t, s.user(t, "owner@example.org", people.RoleAdmin)),
	}
	for _, r := range s.pages.routes() {
		if r.operation.Access() == admin.Anyone {
			continue
		}
		path := strings.NewReplacer(":project", "mine", ":token", strings.Repeat("0", 32), ":key", strings.Repeat("0", 32)).Replace(r.path)
		for who, visitor := range people {
			answer := visitor.send(r.method, path, "application/x-www-form-urlencoded", strings.NewReader("confirm=&name="))
			want := expected(r, who)
			refused := answer.Code == http.StatusForbidden || answer.Code == http.StatusNotFound || answer.Header().Get("Location") == signInPath ||
				strings.HasPrefix(answer.Header().Get("Location"), signInPath+"?")
			switch {
			case want == 0 && refused && !aboutNothing(r, answer.Code):
				t.Errorf("%s %s: %s is answered %d", r.method, r.path, who, answer.Code)
			case want == http.StatusSeeOther && (answer.Code != want || !refused), want > http.StatusSeeOther && answer.Code != want:
				t.Errorf("%s %s: %s is answered %d, want %d", r.method, r.path, who, answer.Code, want)
			}
		}
	}
	for _, name := range []string{"mine", "theirs"} {
		if found, err := s.Projects.Project(admintest.Context(t), name); err != nil || found.Settings.RetentionDays != 30 {
			t.Errorf("%s was changed: %+v, %v", name, found, err)
		}
	}
}

// aboutNothing reports whether the route is about something that the test does
// not create, so that a person with access gets 404.
func aboutNothing(r route, code int) bool {
	return code == http.StatusNotFound && (strings.Contains(r.path, ":token") || strings.Contains(r.path, ":key") || strings.Contains(r.path, ":id") || strings.Contains(r.path, ":letter") ||
		strings.HasPrefix(r.path, usersPath+"/"))
}

// expected returns the status that refuses the person, 0 if the page is allowed.
func expected(r route, who string) int {
	ofProject := strings.Contains(r.path, ":project")
	switch {
	case who == "anonymous":
		return http.StatusSeeOther
	case !ofProject && r.operation.Access() == admin.Member, who == "owner":
		return 0
	case r.operation.Access() == admin.Owner:
		return http.StatusForbidden
	case ofProject && (who == "member of none" || who == "admin of theirs"):
		return http.StatusNotFound
	case r.operation.Access() == admin.Manager && who == "member":
		return http.StatusForbidden
	}
	return 0
}

func TestListShowsOnlyThePersonsProjects(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	mine := s.Project(t, "mine")
	s.Project(t, "theirs")
	for who, visitor := range map[string]*visitor{
		"member": s.as(t, s.user(t, "member@example.org", people.RoleMember, mine)),
		"admin":  s.as(t, s.user(t, "few@example.org", people.RoleAdmin, mine)),
	} {
		for _, path := range []string{"/projects", "/projects?filter=their", "/projects?after=mine"} {
			if page := visitor.get(path).Body.String(); strings.Contains(page, "theirs") {
				t.Errorf("%s sees another project at %s", who, path)
			}
		}
		if page := visitor.get("/projects").Body.String(); !strings.Contains(page, "/projects/mine") {
			t.Errorf("%s does not see their own project", who)
		}
		gone, others := visitor.get("/projects/nobody-s/settings"), visitor.get("/projects/theirs/settings")
		if gone.Code != others.Code || gone.Body.String() != strings.ReplaceAll(others.Body.String(), "theirs", "nobody-s") {
			t.Errorf("%s can distinguish another project from a missing one", who)
		}
	}
}

func TestMembersOfADeletedProjectAreNotMembersOfALaterOneWithItsName(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	v := s.as(t, s.user(t, "member@example.org", people.RoleMember, s.Project(t, "shop")))
	owner := s.as(t, s.user(t, "owner@example.org", people.RoleAdmin))
	if answer := owner.post("/projects/shop/settings/delete", url.Values{"confirm": {"shop"}}); answer.Code != http.StatusSeeOther {
		t.Fatalf("answer %d: %s", answer.Code, answer.Body)
	}
	s.Project(t, "shop")
	if answer := v.get("/projects/shop/settings"); answer.Code != http.StatusNotFound {
		t.Errorf("answer %d", answer.Code)
	}
}
