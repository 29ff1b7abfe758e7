// Package clickhouse writes blocks of rows into ClickHouse and reads them back.
//
// The writer fills a LogBlock or EventBlock with records and inserts it under
// a deduplication token; admin reads pages of logs and events. What an insert's
// error means for the rows is in Classify: often nobody can know whether they
// are there, and only counting them (CountRange) tells. The usual mistake is to
// insert again instead of counting first.
//
// Everything goes through clickhouse-go, over HTTP or the native protocol,
// against a server or against the engine embedded in standalone. Reads are
// SQL files with bound parameters; no text of a user ever becomes SQL.
package clickhouse

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/logboom/logboom/schema"
)

// Config says where ClickHouse is and how long to wait for it.
type Config struct {
	// URL is http(s)://[user:password@]host:8123/database or
	// clickhouse://[user:password@]host:9000/database. The native protocol takes
	// ?secure=true for TLS; ?compress=lz4 compresses what inserts send, for a
	// slow network.
	URL string
	// Cluster is the cluster whose servers all hold the tables, by the name that
	// ClickHouse knows it by. Empty: there is one server.
	Cluster string

	// DialTimeout bounds the making of a connection. 0 means 5 s.
	DialTimeout time.Duration
	// InsertTimeout bounds one insert. 0 means 30 s.
	InsertTimeout time.Duration
	// ReadTimeout bounds one read, in the server too. 0 means 10 s.
	ReadTimeout time.Duration

	// MaxReadMemory bounds the memory of one read in the server, in bytes.
	// 0 means 1 GiB.
	MaxReadMemory int64
	// MaxReadRows bounds the rows that one read may look at. 0 means 10^9.
	MaxReadRows int64

	// MaxConnections bounds the connections to the server. 0 means 8.
	MaxConnections int
}

// withDefaults fills what was left 0 and refuses what makes no sense.
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

// Client inserts and reads. It is safe for use by several goroutines.
type Client struct {
	config  Config
	options *ch.Options
	conn    driver.Conn
	// packed takes inserts where they are to be compressed over HTTP, nil
	// elsewhere. Answers over HTTP are never compressed: clickhouse-go 2.50
	// looks for exceptions in the bytes of a compressed answer, and a line that
	// holds "__exception__" and a line end made its whole page unreadable.
	packed driver.Conn
}

// Open prepares a client. It connects to nothing: the first use does, so that
// a process may start before ClickHouse.
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
	client := &Client{config: config, options: options}
	if err := client.open(); err != nil {
		return nil, fmt.Errorf("clickhouse: %w", redacted(err))
	}
	return client, nil
}

// open makes the pools of connections.
func (c *Client) open() (err error) {
	if c.options.Protocol == ch.HTTP && c.options.Compression != nil {
		packed := *c.options
		if c.packed, err = ch.Open(&packed); err != nil {
			return err
		}
		c.options.Compression = nil
	}
	c.conn, err = ch.Open(c.options)
	return err
}

// Close lets go of the connections.
func (c *Client) Close() error {
	err := c.conn.Close()
	if c.packed != nil {
		err = errors.Join(err, c.packed.Close())
	}
	if err != nil {
		return fmt.Errorf("clickhouse: close: %w", redacted(err))
	}
	return nil
}

// Ping asks whether ClickHouse answers and the database is there.
func (c *Client) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.config.ReadTimeout)
	defer cancel()
	if err := c.conn.Ping(ctx); err != nil {
		return fmt.Errorf("clickhouse: ping: %w", redacted(err))
	}
	return nil
}

// Migrate creates the database where it is missing and brings its tables up to
// date. It may run in several processes at once. Where there is nothing to do
// it only reads, so that a user without the right to create may call it.
func (c *Client) Migrate(ctx context.Context) error {
	if c.migrated(ctx) {
		return nil
	}
	if err := c.createDatabase(ctx); err != nil {
		return fmt.Errorf("clickhouse: create database %s: %w", c.options.Auth.Database, redacted(err))
	}
	db := ch.OpenDB(c.ddlOptions())
	err := c.applySchema(ctx, db)
	if closeErr := db.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("clickhouse: %w", redacted(err))
	}
	return nil
}

// migrated tells whether the tables are known to be up to date.
func (c *Client) migrated(ctx context.Context) bool {
	db := ch.OpenDB(c.options)
	version, err := schema.Version(ctx, db)
	_ = db.Close() // what matters was read
	return err == nil && version >= schema.Latest()
}

func (c *Client) applySchema(ctx context.Context, db *sql.DB) error {
	if c.config.Cluster == "" {
		return schema.Apply(ctx, db)
	}
	return schema.ApplyReplicated(ctx, db, c.config.Cluster)
}

// ddlOptions let a statement for a whole cluster end although one of its
// servers is away: that server carries it out when it is back.
func (c *Client) ddlOptions() *ch.Options {
	options := *c.options
	if c.config.Cluster != "" {
		options.Settings = ch.Settings{"distributed_ddl_task_timeout": 30, "distributed_ddl_output_mode": "null_status_on_timeout"}
		maps.Copy(options.Settings, c.options.Settings)
	}
	return &options
}

// createDatabase connects without a database, because ClickHouse refuses every
// statement of a connection whose database does not exist.
func (c *Client) createDatabase(ctx context.Context) error {
	options := c.ddlOptions()
	options.Auth.Database = ""
	conn, err := ch.Open(options)
	if err != nil {
		return err
	}
	statement := "CREATE DATABASE IF NOT EXISTS `" + c.options.Auth.Database + "`"
	if c.config.Cluster != "" {
		statement += " ON CLUSTER '" + c.config.Cluster + "'"
	}
	err = conn.Exec(ctx, statement)
	if closeErr := conn.Close(); err == nil {
		err = closeErr
	}
	return err
}
