package people

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/secret"
)

// door is a passwordStore with one valid password. It counts its calls.
type door struct {
	asked int
}

func (d *door) SignIn(_ context.Context, email string, password secret.Value) (User, error) {
	d.asked++
	if password.Reveal() != "right" {
		return User{}, ErrCredentials
	}
	return User{Email: email}, nil
}

func (d *door) ChangePassword(ctx context.Context, email string, old, _ secret.Value) (User, error) {
	return d.SignIn(ctx, email, old)
}

func (d *door) User(context.Context, string) (User, error) {
	return User{}, project.ErrNotFound
}

func TestGateBoundsTriesByAccountAndByAddress(t *testing.T) {
	t.Parallel()
	users := &door{}
	gate := NewGate(users)
	now := time.Now()
	gate.tries.now = func() time.Time { return now }
	try := func(email, password, address string) error {
		_, err := gate.SignIn(t.Context(), email, secret.New(password), address)
		return err
	}
	var throttled *ThrottledError
	for i := range 100 { // one account, from everywhere, in any spelling
		email := []string{"one@example.org", " ONE@example.org"}[i%2]
		err := try(email, "wrong", fmt.Sprintf("10.0.0.%d", i))
		if want := i >= triesPerAccount; errors.As(err, &throttled) != want {
			t.Fatalf("try %d of an account: %v", i+1, err)
		}
	}
	if err := try("one@example.org", "right", "10.0.1.1"); !errors.As(err, &throttled) || throttled.RetryAfter > limitWindow {
		t.Errorf("the right password during the pause: %v", err)
	}
	users.asked = 0
	for i := range 100 { // one address, all accounts
		_ = try(fmt.Sprintf("user%d@example.org", i), "wrong", "2001:db8::"+fmt.Sprint(i))
	}
	if users.asked != triesPerAddress {
		t.Errorf("one network had %d tries, want %d", users.asked, triesPerAddress)
	}
	now = now.Add(limitWindow + time.Second)
	for range 3 * triesPerAddress {
		if err := try("one@example.org", "right", "10.0.0.1"); err != nil {
			t.Fatalf("successful sign-ins are counted: %v", err)
		}
	}
}

func TestGateCountsGuessesOfAnOldPasswordAsSignIns(t *testing.T) {
	t.Parallel()
	users := &door{}
	gate := NewGate(users)
	change := func(old string) error {
		_, err := gate.ChangePassword(t.Context(), "one@example.org", secret.New(old), secret.New("fresh"), "10.0.0.1")
		return err
	}
	for range 3 * triesPerAccount {
		if err := change("right"); err != nil {
			t.Fatalf("successful changes are counted: %v", err)
		}
	}
	users.asked = 0
	var throttled *ThrottledError
	for i := range 2 * triesPerAccount {
		if err := change("wrong"); errors.As(err, &throttled) != (i >= triesPerAccount) {
			t.Fatalf("guess %d: %v", i+1, err)
		}
	}
	_, err := gate.SignIn(t.Context(), "one@example.org", secret.New("right"), "10.0.0.2")
	if !errors.As(err, &throttled) || users.asked != triesPerAccount {
		t.Errorf("a sign-in after the guesses: %v; %d were checked", err, users.asked)
	}
}

func TestLimiterForgetsTheQuietestKey(t *testing.T) {
	t.Parallel()
	l := newLimiter()
	now := time.Now()
	l.now = func() time.Time { return now }
	for i := range 2 * maxLimited {
		now = now.Add(time.Millisecond)
		if err := l.add(fmt.Sprint(i), 1); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(l.tries); n > maxLimited {
		t.Errorf("%d keys are kept", n)
	}
	if err := l.add(fmt.Sprint(2*maxLimited-1), 1); err == nil {
		t.Error("the newest was forgotten")
	}
}

func TestCookiesDependOnTheConnection(t *testing.T) {
	t.Parallel()
	address := func(text string) *url.URL {
		parsed, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	for name, tc := range map[string]struct {
		public *url.URL
		target string
		cookie string // its name; "": refused
	}{
		"laptop":                {nil, "http://localhost:8081/", "logboom-session"},
		"laptop by number":      {nil, "http://127.0.0.1:8081/", "logboom-session"},
		"laptop, IPv6":          {nil, "http://[::1]:8081/", "logboom-session"},
		"TLS in the process":    {nil, "https://logs.example.org/", "__Host-logboom-session"},
		"behind a proxy":        {address("https://logs.example.org"), "http://10.1.2.3:8081/", "__Host-logboom-session"},
		"trusted network":       {address("http://logs.internal:8081"), "http://logs.internal:8081/", "logboom-session"},
		"open network":          {nil, "http://logs.example.org/", ""},
		"a name for loopback":   {nil, "http://127.0.0.1.example.org/", ""},
		"rebound to this host":  {nil, "http://evil.example:8081/", ""},
		"other private network": {nil, "http://192.168.1.5:8081/", ""},
	} {
		cookies := Cookies{Public: tc.public}
		request, answer := httptest.NewRequest(http.MethodGet, tc.target, nil), httptest.NewRecorder()
		err := cookies.Write(answer, request, "logboom-session", "value", Lifetime)
		if (tc.cookie == "") != errors.Is(err, ErrPlain) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if tc.cookie == "" {
			continue
		}
		set := answer.Result().Cookies()[0]
		secure := tc.cookie != "logboom-session"
		if set.Name != tc.cookie || set.Secure != secure || !set.HttpOnly || set.SameSite != http.SameSiteLaxMode || set.Path != "/" || set.Domain != "" {
			t.Errorf("%s: cookie %s", name, set)
		}
		request.AddCookie(set)
		if got := cookies.Read(request, "logboom-session"); got != "value" {
			t.Errorf("%s: read %q", name, got)
		}
	}
}
