package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/logboom/logboom/pkg/people"
)

const freshPassword = "a longer password"

// changePassword sends the password form of the account page.
func (v *visitor) changePassword(old, fresh, again string) (code int, page string) {
	answer := v.post(accountPath+"/password", url.Values{"old": {old}, "password": {fresh}, "again": {again}})
	if answer.Code == http.StatusSeeOther {
		return answer.Code, answer.Header().Get("Location")
	}
	return answer.Code, answer.Body.String()
}

func TestChangingOnesPasswordEndsOtherSessions(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	user := s.user(t, "one@example.org", people.RoleMember)
	v, elsewhere, other := s.as(t, user), s.as(t, user), s.as(t, s.user(t, "two@example.org", people.RoleMember))
	before := v.cookies[sessionCookie]
	if code, at := v.changePassword(password, freshPassword, freshPassword); code != http.StatusSeeOther || at != accountPath+"?done=password-changed" {
		t.Fatalf("answer %d: %s", code, at)
	}
	if change := s.last(t); change.Action != "person.password_changed" || change.Person != user.Email || change.Address == "" {
		t.Errorf("in the audit trail: %+v", change)
	}
	replayed := s.visitor(t)
	replayed.cookies[sessionCookie] = before
	for name, tc := range map[string]struct {
		who  *visitor
		isIn bool
	}{"this browser": {v, true}, "with the session before": {replayed, false}, "another browser": {elsewhere, false}, "another user": {other, true}} {
		if tc.who.isIn() != tc.isIn {
			t.Errorf("%s is in: %v", name, !tc.isIn)
		}
	}
	if answer := s.visitor(t).signIn(user.Email, password); answer.Code == http.StatusSeeOther && answer.Header().Get("Location") == projectsPath {
		t.Error("the old password is still valid")
	}
	again := s.visitor(t)
	if again.signIn(user.Email, freshPassword); !again.isIn() {
		t.Error("the new password is not valid")
	}
}

func TestPasswordStaysUnlessTheFormIsValid(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	v := s.as(t, s.user(t, "one@example.org", people.RoleMember))
	for name, tc := range map[string]struct {
		old, fresh, again string
		code              int
		fault             string
	}{
		"not the old one":   {"not it", freshPassword, freshPassword, http.StatusForbidden, "old-fault"},
		"typed differently": {password, freshPassword, "a long pasword", http.StatusBadRequest, "again-fault"},
		"short":             {password, "short", "short", http.StatusBadRequest, "password-fault"},
	} {
		code, page := v.changePassword(tc.old, tc.fresh, tc.again)
		if code != tc.code || !strings.Contains(page, `id="`+tc.fault+`"`) {
			t.Errorf("%s: answer %d: %s", name, code, page)
		}
		if strings.Contains(page, tc.fresh) && tc.fresh != "short" || strings.Contains(page, "not it<") {
			t.Errorf("%s: the page repeats a password", name)
		}
	}
	if fresh := s.visitor(t); fresh.signIn("one@example.org", password).Code != http.StatusSeeOther || !v.isIn() || !fresh.isIn() {
		t.Error("the old password or the session is no longer valid")
	}
}

func TestStolenSessionDoesNotHelpToGuessThePassword(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.closeSetUp(t)
	user := s.user(t, "one@example.org", people.RoleMember)
	thief := s.as(t, user)
	checked := 0
	for range 10 {
		if code, _ := thief.changePassword(tooLong(), freshPassword, freshPassword); code == http.StatusForbidden {
			checked++
		}
		if thief.signIn(user.Email, tooLong()).Code == http.StatusUnauthorized {
			checked++
		}
	}
	if checked > 6 {
		t.Errorf("%d guesses were checked within a minute", checked)
	}
	if code, _ := thief.changePassword(password, freshPassword, freshPassword); code != http.StatusTooManyRequests {
		t.Errorf("the right password during the pause: answer %d", code)
	}
}
