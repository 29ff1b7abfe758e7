package admin_test

import (
	"fmt"
	"testing"

	"github.com/logboom/logboom/pkg/admin"
	"github.com/logboom/logboom/pkg/admin/admintest"
	"github.com/logboom/logboom/pkg/people"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/secret"
)

func TestCallersMayDoOnlyWhatTheirRoleAndProjectsAllow(t *testing.T) {
	t.Parallel()
	mine, theirs := project.Project{ID: "mine~1"}, project.Project{ID: "theirs~1"}
	for name, tc := range map[string]struct {
		caller admin.Caller
		want   string // of mine: m(ember), M(anager); of theirs: t, T; without a project: n, O(wner)
	}{
		"nobody":               {admin.Caller{}, ""},
		"unknown role":         {admin.Caller{Role: "root", AllProjects: true}, ""},
		"member of none":       {admin.Caller{Role: people.RoleMember}, "n"},
		"member of one":        {admin.Caller{Role: people.RoleMember, Projects: []string{mine.ID}}, "mn"},
		"member of all":        {admin.Caller{Role: people.RoleMember, AllProjects: true}, "mtn"},
		"admin of none":        {admin.Caller{Role: people.RoleAdmin}, "n"},
		"admin of one":         {admin.Caller{Role: people.RoleAdmin, Projects: []string{mine.ID}}, "mMn"},
		"admin of all":         {admin.Caller{Role: people.RoleAdmin, AllProjects: true}, "mMtTnO"},
		"no ID is no project":  {admin.Caller{Role: people.RoleAdmin, Projects: []string{""}}, "n"},
		"unknown role of mine": {admin.Caller{Role: "root", Projects: []string{mine.ID}}, ""},
	} {
		got := ""
		for _, one := range []struct {
			mark   string
			access admin.Access
			p      project.Project
		}{
			{"m", admin.Member, mine}, {"M", admin.Manager, mine}, {"t", admin.Member, theirs}, {"T", admin.Manager, theirs},
			{"n", admin.Member, project.Project{}}, {"-", admin.Manager, project.Project{}}, {"O", admin.Owner, project.Project{}},
			{"-", admin.Nobody, mine}, {"-", admin.Nobody, project.Project{}},
		} {
			if tc.caller.May(one.access, one.p) {
				got += one.mark
			}
		}
		if got != tc.want {
			t.Errorf("%s may %q, want %q", name, got, tc.want)
		}
		if !tc.caller.May(admin.Anyone, project.Project{}) {
			t.Errorf("%s may not do what anyone may", name)
		}
	}
}

func TestOperationWithoutAnEntryInTheTableIsForNobody(t *testing.T) {
	t.Parallel()
	if access := admin.Operation("").Access(); access != admin.Nobody || access.String() != "nobody" {
		t.Errorf("it is for %s", access)
	}
}

func TestAPIKeysAndSessionsHaveTheRightsOfTheirRoleAndProjects(t *testing.T) {
	t.Parallel()
	i := admintest.Start(t)
	mine, theirs := i.Project(t, "mine"), i.Project(t, "theirs")
	s := i.New()
	for n, tc := range []struct {
		role     people.Role
		projects []string // names
		key      string   // of mine: r(ead), w(rite); of theirs: R, W; of all: m(anage)
		session  string
	}{
		{people.RoleAdmin, nil, "rwRWm", "rwRWm"},
		{people.RoleAdmin, []string{"mine"}, "rw", "rw"},
		{people.RoleMember, nil, "rR", ""}, // a member without projects sees none, a key sees all
		{people.RoleMember, []string{"mine"}, "r", "r"},
		{people.RoleMember, []string{"mine", "theirs"}, "rR", "rR"},
	} {
		_, value, err := i.People.CreateAPIKey(admintest.Context(t), "x", tc.role, tc.projects...)
		if err != nil {
			t.Fatal(err)
		}
		byKey, err := s.KeyCaller(admintest.Context(t), value.Reveal())
		if got := rights(byKey, mine, theirs); err != nil || got != tc.key {
			t.Errorf("key of %s %q: %q, want %q: %v", tc.role, tc.projects, got, tc.key, err)
		}
		email := fmt.Sprintf("user%d@example.org", n)
		if err := s.CreateUser(admintest.Context(t), owner, email, secret.New("a long password"), tc.role, tc.projects); err != nil {
			t.Fatal(err)
		}
		user, err := s.User(admintest.Context(t), email)
		if err != nil {
			t.Fatal(err)
		}
		token, err := i.Deps.Sessions.Begin(admintest.Context(t), user)
		if err != nil {
			t.Fatal(err)
		}
		bySession, err := s.SessionCaller(admintest.Context(t), token)
		if got := rights(bySession, mine, theirs); err != nil || got != tc.session || bySession.Email != email {
			t.Errorf("session of %s %q: %q, want %q: %v", tc.role, tc.projects, got, tc.session, err)
		}
	}
}

// rights lists what the caller may do with two projects, and with all.
func rights(caller admin.Caller, mine, theirs project.Project) string {
	may := ""
	for _, one := range []struct {
		letter string
		access admin.Access
		p      project.Project
	}{{"r", admin.Member, mine}, {"w", admin.Manager, mine}, {"R", admin.Member, theirs}, {"W", admin.Manager, theirs}, {"m", admin.Owner, project.Project{}}} {
		if caller.May(one.access, one.p) {
			may += one.letter
		}
	}
	return may
}
