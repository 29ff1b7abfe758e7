package web

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/logboom/logboom/pkg/admin/admintest"
	"github.com/logboom/logboom/pkg/people"
	"github.com/logboom/logboom/pkg/people/issuertest"
	"github.com/logboom/logboom/pkg/secret"
)

// withIssuer returns a site with company sign-in.
func withIssuer(t *testing.T) (*site, *issuertest.Issuer) {
	t.Helper()
	s, i := newSite(t), issuertest.Start(t)
	s.closeSetUp(t)
	public, err := url.Parse("http://localhost:8081")
	if err != nil {
		t.Fatal(err)
	}
	s.mount(t, Config{Public: public, IngestPort: "8080", QueryTimeout: admintest.Timeout}, people.NewOIDC(people.OIDCConfig{
		Issuer: i.URL, ClientID: issuertest.ClientID, ClientSecret: secret.New(issuertest.ClientSecret), RedirectURL: CompanyCallback(public),
	}, nil))
	return s, i
}

// begin begins a company sign-in and returns the address to which the issuer
// sends the visitor back.
func (v *visitor) begin(i *issuertest.Issuer) (back string) {
	v.t.Helper()
	answer := v.get("/sign-in/company")
	at := answer.Header().Get("Location")
	state, code, err := i.Authorize(at)
	if err != nil || answer.Code != http.StatusSeeOther || !strings.HasPrefix(at, i.URL+"/authorize?") {
		v.t.Fatalf("answer %d to %s: %v", answer.Code, at, err)
	}
	return "/sign-in/company/back?" + url.Values{"state": {state}, "code": {code}}.Encode()
}

func TestCompanyAccountOfAUserSignsIn(t *testing.T) {
	t.Parallel()
	s, i := withIssuer(t)
	s.user(t, issuertest.Email, people.RoleMember)
	if page := s.visitor(t).get(signInPath).Body.String(); !strings.Contains(page, `href="/sign-in/company"`) {
		t.Error("the sign-in page does not offer it")
	}
	v := s.visitor(t)
	fixed := strings.Repeat("A", 43)
	v.cookies[sessionCookie] = fixed // as an attacker would set it
	back := v.begin(i)
	attempt := v.cookies[attemptCookie]
	answer := v.get(back)
	if answer.Code != http.StatusSeeOther || answer.Header().Get("Location") != projectsPath || !v.isIn() {
		t.Fatalf("answer %d to %s: %s", answer.Code, answer.Header().Get("Location"), answer.Body)
	}
	if v.cookies[sessionCookie] == fixed || v.cookies[attemptCookie] != "" {
		t.Errorf("the browser has %v", v.cookies)
	}
	if change := s.last(t); change.Action != "person.signed_in" || change.Person != issuertest.Email {
		t.Errorf("in the audit trail: %+v", change)
	}
	replayed := s.visitor(t)
	replayed.cookies[attemptCookie] = attempt
	if answer := replayed.get(back); answer.Code != http.StatusForbidden || replayed.isIn() {
		t.Errorf("the same address, replayed: answer %d", answer.Code)
	}
}

func TestCompanySignInMustEndInTheBrowserThatBeganIt(t *testing.T) {
	t.Parallel()
	s, i := withIssuer(t)
	s.user(t, issuertest.Email, people.RoleMember)
	attacker, victim := s.visitor(t), s.visitor(t)
	back := attacker.begin(i)
	if answer := victim.get(back); answer.Code != http.StatusForbidden || !strings.Contains(answer.Body.String(), "not begun in this browser") || victim.isIn() {
		t.Errorf("another browser: answer %d", answer.Code)
	}
	victim.begin(i) // an attempt of their own does not help
	if answer := victim.get(back); answer.Code != http.StatusForbidden || victim.isIn() {
		t.Errorf("another browser with an attempt of its own: answer %d", answer.Code)
	}
}

func TestInvalidCompanyAccountGetsNoSession(t *testing.T) {
	t.Parallel()
	s, i := withIssuer(t)
	s.user(t, issuertest.Email, people.RoleMember)
	for name, tc := range map[string]struct {
		claims map[string]any
		says   string
	}{
		"nobody's":     {map[string]any{"email": "stranger@example.org"}, "ask an administrator"},
		"not verified": {map[string]any{"email_verified": false}, "no verified e-mail address"},
		"of another":   {map[string]any{"aud": "secret things"}, "could not be checked"},
	} {
		i.Claims = tc.claims
		v := s.visitor(t)
		answer := v.get(v.begin(i))
		if page := answer.Body.String(); answer.Code != http.StatusForbidden || !strings.Contains(page, tc.says) || strings.Contains(page, "secret things") {
			t.Errorf("%s: answer %d: %s", name, answer.Code, page)
		}
		if v.isIn() || v.cookies[sessionCookie] != "" {
			t.Errorf("%s: got a session", name)
		}
	}
}

func TestCompanySignInDoesNotExistWithoutAnIssuer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, path := range []string{"/sign-in/company", "/sign-in/company/back?state=x&code=y"} {
		if answer := s.visitor(t).get(path); answer.Code != http.StatusNotFound {
			t.Errorf("%s is answered %d", path, answer.Code)
		}
	}
}

func TestUnreachableIssuerIsReported(t *testing.T) {
	t.Parallel()
	s, _ := withIssuer(t)
	gone := httptest.NewServer(nil)
	gone.Close()
	s.mount(t, s.pages.cfg, people.NewOIDC(people.OIDCConfig{Issuer: gone.URL, ClientID: issuertest.ClientID}, nil))
	if answer := s.visitor(t).get("/sign-in/company"); answer.Code != http.StatusForbidden || !strings.Contains(answer.Body.String(), "could not be checked") {
		t.Errorf("answer %d", answer.Code)
	}
}
