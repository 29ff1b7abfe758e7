// Package clickhouse writes blocks of rows into ClickHouse and reads them back.
//
// The writer fills a LogBlock or EventBlock with records and inserts it under
// a deduplication token; admin reads pages of logs and events. Classify says
// what an insert's error means for the rows: often nobody can know whether they
// are stored, and only counting them (CountRange) shows it. The usual mistake is
// to insert again instead of counting first.
//
// Everything goes through clickhouse-go over HTTP, against a server or against
// the engine embedded in standalone. Reads are SQL files with bound parameters;
// no text of a user ever becomes SQL.
package clickhouse

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Config says where ClickHouse is and how long to wait for it.
type Config struct {
	// URL is http(s)://[user:password@]host:8123/database. ?compress=lz4
	// compresses what inserts send, for a slow network.
	URL string
	// Cluster is the name by which ClickHouse knows the cluster whose servers
	// all hold the tables. Empty: there is one server.
	Cluster string

	// DialTimeout bounds opening a connection. 0 means 5 s.
	DialTimeout time.Duration
	// InsertTimeout bounds one insert. 0 means 30 s.
	InsertTimeout time.Duration
	// ReadTimeout bounds one read, in the server too. 0 means 10 s.
	ReadTimeout time.Duration

	// MaxReadMemory bounds the memory of one read in the server, in bytes.
	// 0 means 1 GiB.
	MaxReadMemory int64
	// MaxReadRows bounds the rows that one read may scan. 0 means 10^9.
	MaxReadRows int64

	// MaxConnections bounds the connections to the server. 0 means 8.
	MaxConnections int
}

// withDefaults replaces zeros by the defaults and returns an error for what
// cannot work.
func (c Config) withDefaults() (Config, error) {
	durations := []struct {
		name  string
		field *time.Duration
		value time.Duration
	}{
		{"dial timeout", &c.DialTimeout, 5 * time.Second},
		{"insert timeout", &c.InsertTimeout, 30 * time.Second},
		{"read timeout", &c.ReadTimeout, 10 * time.Second},
	}
	for _, d := range durations {
		if *d.field < 0 {
			return c, fmt.Errorf("%s: %s is negative", d.name, *d.field)
		}
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if c.MaxReadMemory < 0 || c.MaxReadRows < 0 || c.MaxConnections < 0 {
		return c, errors.New("read memory, read rows and connections: none may be negative")
	}
	if c.MaxReadMemory == 0 {
		c.MaxReadMemory = 1 << 30
	}
	if c.MaxReadRows == 0 {
		c.MaxReadRows = 1_000_000_000
	}
	if c.MaxConnections == 0 {
		c.MaxConnections = 8
	}
	return c, nil
}

// maxDatabaseName is the longest database name that a URL may have.
const maxDatabaseName = 64

// parseURL turns a ClickHouse URL into connection options. No error repeats
// the URL, because it may hold a password.
func parseURL(raw string) (*ch.Options, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" {
		return nil, errors.New("url: not well formed, want http://[user:password@]host:8123/database")
	}
	options := &ch.Options{Protocol: ch.HTTP}
	port := "8123"
	switch u.Scheme {
	case "http":
	case "https":
		port, options.TLS = "8443", &tls.Config{MinVersion: tls.VersionTLS12}
	default:
		return nil, fmt.Errorf("url: scheme %q is not supported, use http or https and ClickHouse's HTTP port", u.Scheme)
	}
	if u.Port() != "" {
		port = u.Port()
	}
	options.Addr = []string{net.JoinHostPort(u.Hostname(), port)}
	for name, values := range u.Query() {
		if name != "compress" || values[0] != "lz4" {
			return nil, fmt.Errorf("url: parameter %q is not known or its value is not valid, the only one is compress=lz4", name)
		}
		options.TransportFunc = func(t *http.Transport) (http.RoundTripper, error) { return compressor{t}, nil }
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

// databaseName validates the URL's path. The name becomes part of a statement,
// so only letters, digits, '_' and '-' are allowed.
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
		return "", fmt.Errorf("url: database %q is not a valid name: use at most %d letters, digits, '_' and '-'", name, maxDatabaseName)
	}
	return name, nil
}

// Client inserts and reads. It is safe for concurrent use.
type Client struct {
	config  Config
	options *ch.Options
	conn    driver.Conn
}

// Open prepares a client. It does not connect; the first use does, so that a
// process may start before ClickHouse.
func Open(config Config) (*Client, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("clickhouse: %w", err)
	}
	options, err := parseURL(config.URL)
	if err != nil {
		return nil, fmt.Errorf("clickhouse: %w", err)
	}
	options.DialTimeout = config.DialTimeout
	options.ReadTimeout = max(config.ReadTimeout, config.InsertTimeout)
	options.MaxOpenConns = config.MaxConnections
	options.MaxIdleConns = config.MaxConnections
	conn, err := ch.Open(options)
	if err != nil {
		return nil, fmt.Errorf("clickhouse: %w", redacted(err))
	}
	return &Client{config: config, options: options, conn: conn}, nil
}

// Close closes the connections.
func (c *Client) Close() error {
	if err := c.conn.Close(); err != nil {
		return fmt.Errorf("clickhouse: close: %w", redacted(err))
	}
	return nil
}

// Ping returns nil if ClickHouse answers and the database exists.
func (c *Client) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.config.ReadTimeout)
	defer cancel()
	if err := c.conn.Ping(ctx); err != nil {
		return fmt.Errorf("clickhouse: ping: %w", redacted(err))
	}
	return nil
}
