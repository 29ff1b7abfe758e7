package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/logboom/logboom/pkg/admin/admintest"
	"github.com/logboom/logboom/pkg/people"
	"github.com/logboom/logboom/pkg/secret"
)

func TestSignInAlwaysCreatesANewSession(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.user(t, "one@example.org", people.RoleAdmin)
	s.closeSetUp(t)
	v := s.visitor(t)
	fixed := strings.Repeat("A", 43)
	v.cookies[sessionCookie] = fixed // as an attacker would set it
	if answer := v.signIn("one@example.org", password); answer.Code != http.StatusSeeOther || answer.Header().Get("Location") != projectsPath {
		t.Fatalf("answer %d to %s: %s", answer.Code, answer.Header().Get("Location"), answer.Body)
	}
	first := v.cookies[sessionCookie]
	if first == fixed || len(first) != 43 || !v.isIn() {
		t.Fatalf("the session is %q", first)
	}
	planted := s.visitor(t)
	planted.cookies[sessionCookie] = fixed
	if planted.isIn() {
		t.Error("the planted session is valid")
	}
	v.signIn("one@example.org", password)
	old := s.visitor(t)
	old.cookies[sessionCookie] = first
	if v.cookies[sessionCookie] == first || old.isIn() {
		t.Error("the session before the second sign-in is still valid")
	}
	if change := s.last(t); change.Action != "person.signed_in" || change.Person != "one@example.org" {
		t.Errorf("in the audit trail: %+v", change)
	}
}

// closeSetUp creates the first admin, so that people can sign in.
func (s *site) closeSetUp(t *testing.T) {
	t.Helper()
	if _, err := s.People.CreateFirstAdmin(admintest.Context(t), "first@example.org", secret.New(password)); err != nil {
		t.Fatal(err)
	}
}

func TestSignOutEndsTheSession(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	v := s.as(t, s.user(t, "one@example.org", people.RoleAdmin))
	replayed := s.visitor(t)
	replayed.cookies[sessionCookie] = v.cookies[sessionCookie]
	if !replayed.isIn() {
		t.Fatal("the session was never valid")
	}
	v.post("/sign-out", nil)
	if _, kept := v.cookies[sessionCookie]; kept || v.isIn() {
		t.Error("the browser still has the cookie")
	}
	if replayed.isIn() {
		t.Error("the session is valid after the sign-out")
	}
}

func TestUnknownUserAndWrongPasswordGetTheSameAnswer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.user(t, "one@example.org", people.RoleAdmin)
	s.closeSetUp(t)
	v := s.visitor(t)
	wrong, unknown := v.signIn("one@example.org", "not it"), v.signIn("two@example.org", "not it")
	if wrong.Code != http.StatusUnauthorized || unknown.Code != wrong.Code {
		t.Errorf("answers %d and %d", wrong.Code, unknown.Code)
	}
	if wrong.Body.String() != strings.ReplaceAll(unknown.Body.String(), "two@example.org", "one@example.org") {
		t.Error("the answers differ")
	}
	if strings.Contains(wrong.Body.String(), "not it") {
		t.Error("the page repeats the password")
	}
}

func TestTooManyTriesAreRefusedWithATimeToWait(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.closeSetUp(t)
	v := s.visitor(t)
	checked := 0
	for range 20 {
		if v.signIn("first@example.org", tooLong()).Code == http.StatusUnauthorized {
			checked++
		}
	}
	if checked != 5 {
		t.Errorf("%d of 20 tries were checked", checked)
	}
	answer := v.signIn("first@example.org", password)
	if answer.Code != http.StatusTooManyRequests || answer.Header().Get("Retry-After") == "" || v.isIn() {
		t.Errorf("the right password during the pause: answer %d, %v", answer.Code, answer.Header())
	}
}

// tooLong returns a wrong password that is refused without hashing, because no
// password is so long: all tries are within the minute in which they count.
func tooLong() string { return strings.Repeat("x", 2000) }

func TestFormsOfOtherSitesChangeNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Project(t, "shop")
	v := s.as(t, s.user(t, "one@example.org", people.RoleAdmin))
	for name, header := range map[string]map[string]string{
		"by fetch metadata": {"Sec-Fetch-Site": "cross-site"},
		"of a neighbour":    {"Sec-Fetch-Site": "same-site"},
		"by origin":         {"Origin": "https://evil.example"},
	} {
		v.header = header
		for path, form := range map[string]url.Values{
			"/projects":                      {"name": {"planted"}},
			"/projects/shop/settings/delete": {"confirm": {"shop"}},
			"/sign-out":                      {},
			"/sign-in":                       {"email": {"one@example.org"}, "password": {password}},
		} {
			if answer := v.post(path, form); answer.Code != http.StatusForbidden {
				t.Errorf("%s: %s is answered %d", name, path, answer.Code)
			}
		}
	}
	v.header = map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost:8081"}
	if answer := v.post("/projects", url.Values{"name": {"mine"}}); answer.Code != http.StatusSeeOther {
		t.Errorf("a form of this site: answer %d", answer.Code)
	}
	if list, err := s.Projects.Projects(admintest.Context(t), "", 0); err != nil || len(list) != 2 {
		t.Errorf("the projects are now %v, %v", list, err)
	}
}

func TestSignInIsRefusedOverAnUnencryptedNetwork(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.closeSetUp(t)
	v := s.visitor(t)
	v.root = "http://logs.example.org"
	if page := v.get(signInPath).Body.String(); !strings.Contains(page, "LOGBOOM_PUBLIC_URL") {
		t.Error("the page does not say what to do")
	}
	if answer := v.signIn("first@example.org", password); answer.Code != http.StatusForbidden || len(v.cookies) != 0 {
		t.Errorf("answer %d, cookies %v", answer.Code, v.cookies)
	}
	public, err := url.Parse("https://logs.example.org")
	if err != nil {
		t.Fatal(err)
	}
	s.mount(t, Config{Public: public, IngestPort: "8080", QueryTimeout: admintest.Timeout}, nil)
	answer := v.signIn("first@example.org", password)
	if answer.Code != http.StatusSeeOther || v.cookies["__Host-"+sessionCookie] == "" {
		t.Fatalf("behind a proxy: answer %d, cookies %v", answer.Code, v.cookies)
	}
	set := answer.Result().Cookies()[0]
	if !set.Secure || !set.HttpOnly || set.SameSite != http.SameSiteLaxMode || answer.Header().Get("Strict-Transport-Security") == "" {
		t.Errorf("cookie %s, header %v", set, answer.Header())
	}
	if !v.isIn() {
		t.Error("the session is not valid")
	}
}

func TestSignInLeadsBackOnlyToPagesOfThisSite(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.closeSetUp(t)
	if at := s.visitor(t).get("/projects?filter=shop").Header().Get("Location"); at != "/sign-in?next=%2Fprojects%3Ffilter%3Dshop" {
		t.Errorf("sent to %s", at)
	}
	for next, want := range map[string]string{
		"/projects?filter=shop": "/projects?filter=shop", "": projectsPath, "//evil.example": projectsPath, "https://evil.example": projectsPath,
		"/\\evil.example": projectsPath, "javascript:alert(1)": projectsPath, "/\t/evil.example": projectsPath, "evil": projectsPath,
	} {
		answer := s.visitor(t).post(signInPath, url.Values{"email": {"first@example.org"}, "password": {password}, "next": {next}})
		if at := answer.Header().Get("Location"); at != want {
			t.Errorf("next %q leads to %s", next, at)
		}
	}
}

func TestFirstAdminIsCreatedOnceWithTheCode(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	code, err := s.Deps.Sessions.NewSetupCode(admintest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	v := s.visitor(t)
	if at := v.get(signInPath).Header().Get("Location"); at != setUpPath {
		t.Errorf("before the set-up the sign-in leads to %q", at)
	}
	form := url.Values{"code": {"wrong"}, "email": {"boss@example.org"}, "password": {password}}
	if answer := v.post(setUpPath, form); answer.Code != http.StatusForbidden {
		t.Errorf("a wrong code: answer %d", answer.Code)
	}
	form.Set("code", code)
	form.Set("password", "short")
	if answer := v.post(setUpPath, form); answer.Code != http.StatusBadRequest || !strings.Contains(answer.Body.String(), "password-fault") {
		t.Errorf("a short password: answer %d", answer.Code)
	}
	form.Set("password", password)
	codes := make(chan int, 20) // one for each try
	var all sync.WaitGroup
	for i := range cap(codes) {
		all.Go(func() {
			one := s.visitor(t)
			one.address = fmt.Sprintf("10.0.0.%d", i) // many tries from one address are refused
			codes <- one.post(setUpPath, form).Code
		})
	}
	all.Wait()
	close(codes)
	created := 0
	for code := range codes {
		switch code {
		case http.StatusSeeOther:
			created++
		case http.StatusNotFound:
		default:
			t.Errorf("a later request is answered %d", code)
		}
	}
	if created != 1 {
		t.Errorf("%d of twenty parallel requests created the first admin", created)
	}
	if list := s.Changes(t); len(list) != 2 || list[0].Action != "user.created" || list[0].Person != "boss@example.org" {
		t.Errorf("in the audit trail: %+v", list)
	}
	s.checkSetUpIsClosed(t, form)
}

// checkSetUpIsClosed sends the form again, with its code and a new one, in this
// process and in a later one.
func (s *site) checkSetUpIsClosed(t *testing.T, form url.Values) {
	t.Helper()
	for range 2 {
		v := s.visitor(t)
		if answer := v.get(setUpPath); answer.Code != http.StatusNotFound {
			t.Errorf("afterwards the page is answered %d", answer.Code)
		}
		code, err := s.Deps.Sessions.NewSetupCode(admintest.Context(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range []string{form.Get("code"), code} {
			form.Set("code", code)
			if answer := v.post(setUpPath, form); answer.Code != http.StatusNotFound || len(v.cookies) != 0 {
				t.Errorf("afterwards the form is answered %d", answer.Code)
			}
		}
		s.mount(t, s.pages.cfg, nil)
	}
}
