package session

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// ErrPlain says that somebody came over a network without encryption, where
// everybody on the way could read a cookie.
var ErrPlain = errors.New("this connection is not encrypted")

// securePrefix makes a browser refuse the cookie unless it comes from this very
// host, encrypted.
const securePrefix = "__Host-"

// Cookies says how cookies are sent.
type Cookies struct {
	// Public is the address at which people reach the pages, such as
	// https://logs.example.org. Where it is nil, encryption counts only when
	// this process does it, and without it only loopback is served.
	Public *url.URL
}

// Secure tells whether the request came over an encrypted way. ErrPlain where
// it did not and should have.
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

// isLoopback tells whether a Host header names this machine to itself.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback() || strings.EqualFold(host, "localhost")
}

// Read is the cookie's value; empty where there is none, or where it came by
// another way than Write would send it.
func (c Cookies) Read(r *http.Request, name string) string {
	secure, err := c.Secure(r)
	if err != nil {
		return ""
	}
	cookie, err := r.Cookie(spelled(name, secure))
	if err != nil {
		return ""
	}
	return cookie.Value
}

// Write sets a cookie that no script may read. An empty value removes it.
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
		Name: spelled(name, secure), Value: value, Path: "/", MaxAge: seconds,
		Secure: secure, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
	return nil
}

func spelled(name string, secure bool) string {
	if secure {
		return securePrefix + name
	}
	return name
}
