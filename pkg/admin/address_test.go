package admin

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/logboom/logboom/pkg/config"
	"github.com/logboom/logboom/pkg/project"
)

func TestAddressIsBelievedOfTrustedProxiesOnly(t *testing.T) {
	t.Parallel()
	proxies := []netip.Prefix{netip.MustParsePrefix("10.20.0.0/16"), netip.MustParsePrefix("2001:db8:1::/48")}
	for name, tc := range map[string]struct {
		trusted   []netip.Prefix
		from      string
		forwarded []string
		want      string
	}{
		"no proxies, no header":    {nil, "203.0.113.7:1", nil, "203.0.113.7"},
		"no proxies, forged":       {nil, "203.0.113.7:1", []string{"198.51.100.1"}, "203.0.113.7"},
		"no proxies, on loopback":  {nil, "127.0.0.1:1", []string{"198.51.100.1"}, "127.0.0.1"},
		"past the proxies, forged": {proxies, "203.0.113.7:1", []string{"198.51.100.1"}, "203.0.113.7"},
		"private, not a proxy":     {proxies, "10.99.0.1:1", []string{"198.51.100.1"}, "10.99.0.1"},
		"loopback, not a proxy":    {proxies, "127.0.0.1:1", []string{"198.51.100.1"}, "127.0.0.1"},
		"link-local, not a proxy":  {proxies, "169.254.1.1:1", []string{"198.51.100.1"}, "169.254.1.1"},
		"proxy without the header": {proxies, "10.20.0.1:1", nil, "10.20.0.1"},
		"proxy":                    {proxies, "10.20.0.1:1", []string{"203.0.113.7"}, "203.0.113.7"},
		"proxy, IPv6":              {proxies, "[2001:db8:1::1]:1", []string{"2001:db8:2::7"}, "2001:db8:2::7"},
		"proxy, mapped":            {proxies, "[::ffff:10.20.0.1]:1", []string{"203.0.113.7"}, "203.0.113.7"},
		"proxy, forged before it":  {proxies, "10.20.0.1:1", []string{"198.51.100.1, 203.0.113.7"}, "203.0.113.7"},
		"proxy, forged line":       {proxies, "10.20.0.1:1", []string{"198.51.100.1", "203.0.113.7"}, "203.0.113.7"},
		"proxy, forged as a proxy": {proxies, "10.20.0.1:1", []string{"198.51.100.1, 10.20.0.9, 203.0.113.7"}, "203.0.113.7"},
		"two proxies":              {proxies, "10.20.0.1:1", []string{"198.51.100.1, 203.0.113.7, 10.20.0.2"}, "203.0.113.7"},
		"proxy, nonsense":          {proxies, "10.20.0.1:1", []string{"a\"><script>"}, "10.20.0.1"},
		"proxy, nonsense before":   {proxies, "10.20.0.1:1", []string{"a\"><script>, 203.0.113.7"}, "203.0.113.7"},
	} {
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		request.RemoteAddr = tc.from
		request.Header["X-Forwarded-For"] = tc.forwarded
		request.Header.Set("X-Real-Ip", "198.51.100.2")
		request.Header.Set("Forwarded", "for=198.51.100.3")
		if got := clientAddress(tc.trusted)(request); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// enter tries to sign in, by a connection from httptest's 192.0.2.1.
func enter(s *Server, email, password, forwarded string) (code int) {
	form := url.Values{"email": {email}, "password": {password}}.Encode()
	request := httptest.NewRequest(http.MethodPost, "http://localhost:8081/sign-in", strings.NewReader(form))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("X-Forwarded-For", forwarded)
	return ask(s, request, nil).Code
}

func TestForgedAddressEscapesNoBoundAndIsNotWrittenDown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if _, err := b.store.CreateFirstAdmin(patient(t), "one@example.org", project.NewSecret(pagePassword)); err != nil {
		t.Fatal(err)
	}
	direct, trail := b.withPages(t, config.Admin{})
	behind, _ := b.withPages(t, config.Admin{})
	behind.echo.IPExtractor = clientAddress([]netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")})
	for s, want := range map[*Server]string{direct: "192.0.2.1", behind: "203.0.113.7"} {
		code := enter(s, "one@example.org", pagePassword, "198.51.100.99, 203.0.113.7")
		list, _, err := trail.Changes(patient(t), 0, 1)
		if code != http.StatusSeeOther || err != nil || len(list) != 1 || list[0].Address != want {
			t.Errorf("answer %d; the trail says %+v, %v; want %s", code, list, err, want)
		}
	}
	// Longer than any is, so that nothing has to be hashed to find it wrong: all
	// tries are within the minute in which they are counted.
	wrong := strings.Repeat("x", 2000)
	for s, want := range map[*Server]int{direct: 20, behind: 22} {
		looked := 0
		for i := range 22 {
			if enter(s, fmt.Sprintf("user%d@example.org", i), wrong, fmt.Sprintf("198.51.100.%d", i)) == http.StatusUnauthorized {
				looked++
			}
		}
		if looked != want {
			t.Errorf("%d of 22 with as many addresses in the header were looked at, want %d", looked, want)
		}
	}
}
