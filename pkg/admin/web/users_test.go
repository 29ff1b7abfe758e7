package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/logboom/logboom/pkg/admin/admintest"
	"github.com/logboom/logboom/pkg/people"
)

func TestAdministratorSetsAUsersPassword(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	boss, user := s.user(t, "boss@example.org", people.RoleAdmin), s.user(t, "one@example.org", people.RoleMember)
	v, theirs := s.as(t, boss), s.as(t, user)
	if page := v.get(usersPath).Body.String(); !strings.Contains(page, "/installation/users/password?email=one%40example.org") || strings.Contains(page, "password?email=boss") {
		t.Error("the list does not link to the form, or links to one's own")
	}
	if page := v.get(usersPath + "/password?email=one%40example.org").Body.String(); !strings.Contains(page, `name="email" value="one@example.org"`) {
		t.Errorf("the form: %s", page)
	}
	for email, tc := range map[string]struct {
		password string
		code     int
	}{user.Email: {"short", http.StatusBadRequest}, boss.Email: {freshPassword, http.StatusBadRequest}, "nobody@example.org": {freshPassword, http.StatusNotFound}} {
		if answer := v.post(usersPath+"/password", url.Values{"email": {email}, "password": {tc.password}}); answer.Code != tc.code {
			t.Errorf("%s: answer %d", email, answer.Code)
		}
	}
	if !theirs.isIn() {
		t.Error("the user is signed out though nothing was changed")
	}
	answer := v.post(usersPath+"/password", url.Values{"email": {user.Email}, "password": {freshPassword}})
	if answer.Code != http.StatusSeeOther || theirs.isIn() || !v.isIn() {
		t.Errorf("answer %d", answer.Code)
	}
	if change := s.last(t); change.Action != "user.password_set" || change.Person != boss.Email || change.Target != user.Email {
		t.Errorf("in the audit trail: %+v", change)
	}
	if again := s.visitor(t); again.signIn(user.Email, freshPassword).Code != http.StatusSeeOther || !again.isIn() {
		t.Error("the new password is not valid")
	}
}

func TestUserKeepsTheirProjectsIfTheNewRoleIsUnknown(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	shop := s.Project(t, "shop")
	user := s.user(t, "few@example.org", people.RoleAdmin, shop)
	v := s.as(t, s.user(t, "boss@example.org", people.RoleAdmin))
	for _, role := range []string{"", "root"} {
		if answer := v.post(usersPath+"/role", url.Values{"email": {user.Email}, "role": {role}, "projects": {""}}); answer.Code != http.StatusBadRequest {
			t.Errorf("role %q: answer %d", role, answer.Code)
		}
	}
	if projects, err := s.Deps.Sessions.Projects(admintest.Context(t), user); err != nil || len(projects) != 1 {
		t.Errorf("the user is limited to %v, %v", projects, err)
	}
}
