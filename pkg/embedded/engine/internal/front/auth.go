package front

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/url"
)

// user is the only user of the engine.
const user = "default"

// authorize checks the password. Like ClickHouse it reads it from ClickHouse's
// own headers, from basic authentication or from the URL.
func (s *Server) authorize(r *http.Request, query url.Values) error {
	name, password, given := credentials(r, query)
	if !given {
		return raise(codeRequiredPassword, "REQUIRED_PASSWORD", "authentication required: send user %s and its password", user)
	}
	// Hashing first makes the comparison's time independent of the lengths.
	want, got := sha256.Sum256([]byte(s.config.Password)), sha256.Sum256([]byte(password))
	wantName, gotName := sha256.Sum256([]byte(user)), sha256.Sum256([]byte(name))
	if subtle.ConstantTimeCompare(want[:], got[:])&subtle.ConstantTimeCompare(wantName[:], gotName[:]) != 1 {
		return raise(codeAuthenticationFailed, "AUTHENTICATION_FAILED", "authentication failed: password is incorrect, or there is no such user")
	}
	return nil
}

func credentials(r *http.Request, query url.Values) (name, password string, given bool) {
	if r.Header.Get("X-Clickhouse-User") != "" || r.Header.Get("X-Clickhouse-Key") != "" {
		return orDefault(r.Header.Get("X-Clickhouse-User")), r.Header.Get("X-Clickhouse-Key"), true
	}
	if name, password, ok := r.BasicAuth(); ok {
		return orDefault(name), password, true
	}
	if query.Has("user") || query.Has("password") {
		return orDefault(query.Get("user")), query.Get("password"), true
	}
	return "", "", false
}

func orDefault(name string) string {
	if name == "" {
		return user
	}
	return name
}
