package people

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// ErrPlain means that a request came over a network without encryption, where
// others could read a cookie.
var ErrPlain = errors.New("this connection is not encrypted")

// securePrefix makes a browser refuse the cookie unless it comes encrypted and
// from exactly this host.
const securePrefix = "__Host-"

// Cookies reads and writes the cookies of the pages.
type Cookies struct {
	// Public is the address at which people reach the pages, such as
	// https://logs.example.org. If it is nil, a connection counts as encrypted
	// only if this process encrypts it, and without encryption only loopback is
	// served.
	Public *url.URL
}

// Secure reports whether the request came over an encrypted connection. ErrPlain
// means that it did not and should have.
func (c Cookies) Secure(r *http.Request) (bool, error) {
	switch {
	case c.Public != nil:
		return c.Public.Scheme == "https", nil
	case r.TLS != nil:
		return true, nil
	case isLoopback(r.Host):
		return false, nil
	}
	return false, ErrPlain
}

// isLoopback reports whether a Host header names the local machine.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback() || strings.EqualFold(host, "localhost")
}

// Read returns the cookie's value. It is empty if there is no such cookie, or if
// the request came over a connection for which Write would name it differently.
func (c Cookies) Read(r *http.Request, name string) string {
	secure, err := c.Secure(r)
	if err != nil {
		return ""
	}
	cookie, err := r.Cookie(cookieName(name, secure))
	if err != nil {
		return ""
	}
	return cookie.Value
}

// Write sets a cookie that no script can read. An empty value removes it.
func (c Cookies) Write(w http.ResponseWriter, r *http.Request, name, value string, age time.Duration) error {
	secure, err := c.Secure(r)
	if err != nil {
		return err
	}
	seconds := int(age / time.Second)
	if value == "" {
		seconds = -1
	}
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(name, secure), Value: value, Path: "/", MaxAge: seconds,
		Secure: secure, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
	return nil
}

func cookieName(name string, secure bool) string {
	if secure {
		return securePrefix + name
	}
	return name
}
