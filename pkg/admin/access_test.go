package admin_test

import (
	"testing"

	"github.com/logboom/logboom/pkg/admin"
	"github.com/logboom/logboom/pkg/people"
	"github.com/logboom/logboom/pkg/project"
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
