package clickhouse

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	ch "github.com/ClickHouse/clickhouse-go/v2"
)

// maxDatabaseName is the longest database name that a URL may carry.
const maxDatabaseName = 64

// parseURL turns a ClickHouse URL into connection options. No error repeats
// the URL, because it may hold a password.
func parseURL(raw string) (*ch.Options, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" {
		return nil, errors.New("url: not well formed, want http://[user:password@]host:8123/database or clickhouse://[user:password@]host:9000/database")
	}
	options := &ch.Options{}
	if err := applyScheme(options, u); err != nil {
		return nil, err
	}
	if err := applyParameters(options, u.Query()); err != nil {
		return nil, err
	}
	if options.Auth.Database, err = databaseName(u.Path); err != nil {
		return nil, err
	}
	if u.User != nil {
		options.Auth.Username = u.User.Username()
		options.Auth.Password, _ = u.User.Password()
	}
	return options, nil
}

// applyScheme chooses the protocol, TLS and the port where the URL names none.
func applyScheme(options *ch.Options, u *url.URL) error {
	port := ""
	switch u.Scheme {
	case "http":
		options.Protocol, port = ch.HTTP, "8123"
	case "https":
		options.Protocol, port = ch.HTTP, "8443"
		options.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	case "clickhouse":
		options.Protocol, port = ch.Native, "9000"
	default:
		return fmt.Errorf("url: scheme %q is not known, use http, https or clickhouse", u.Scheme)
	}
	if u.Port() != "" {
		port = u.Port()
	}
	options.Addr = []string{net.JoinHostPort(u.Hostname(), port)}
	return nil
}

// applyParameters takes the URL's few query parameters: secure=true for TLS on
// the native protocol, compress=lz4 for a slow network.
func applyParameters(options *ch.Options, parameters url.Values) error {
	for name := range parameters {
		switch value := parameters.Get(name); {
		case name == "secure" && value == "true":
			options.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		case name == "compress" && value == "lz4":
			options.Compression = &ch.Compression{Method: ch.CompressionLZ4}
		default:
			return fmt.Errorf("url: parameter %q is not known or has a bad value, there are secure=true and compress=lz4", name)
		}
	}
	return nil
}

// databaseName checks the URL's path. The name becomes part of a statement, so
// it is held to letters, digits, '_' and '-'.
func databaseName(path string) (string, error) {
	name := strings.TrimPrefix(path, "/")
	if name == "" {
		return "", errors.New("url: no database, add one as the path, such as /logboom")
	}
	ok := len(name) <= maxDatabaseName
	for i := range len(name) {
		c := name[i]
		ok = ok && (c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z')
	}
	if !ok {
		return "", fmt.Errorf("url: database %q is not a name: at most %d letters, digits, '_' and '-'", name, maxDatabaseName)
	}
	return name, nil
}
