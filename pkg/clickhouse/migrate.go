package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/cenkalti/backoff/v5"

	"github.com/logboom/logboom/schema"
)

// Prepare is Migrate for a process that may start before ClickHouse or while
// ClickHouse is away: it retries until ctx ends. An error that waiting does not
// cure, such as a wrong password, is returned at once.
func (c *Client) Prepare(ctx context.Context, logger *slog.Logger) error {
	var last error
	migrate := func() (struct{}, error) {
		if last = c.Migrate(ctx); last != nil && !mayPass(last) {
			return struct{}{}, backoff.Permanent(last)
		}
		return struct{}{}, last
	}
	notify := func(err error, wait time.Duration) {
		logger.WarnContext(ctx, "clickhouse not reached", "err", err, "retry_in", wait)
	}
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval = 100*time.Millisecond, 5*time.Second
	if _, err := backoff.Retry(ctx, migrate, backoff.WithBackOff(waits), backoff.WithMaxElapsedTime(0), backoff.WithNotify(notify)); err != nil {
		return last
	}
	return nil
}

// mayPass reports whether an error of Migrate may be gone at the next attempt.
func mayPass(err error) bool {
	var exception *ch.Exception
	if errors.As(err, &exception) {
		class := classify(exception.Code)
		return class.Verdict == Transient && class.Reason != "access_denied" || class.Reason == "timeout" || class.Reason == "connection_lost"
	}
	var network net.Error // such as a *net.OpError, or a deadline that has passed
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// Migrate creates the database if it is missing and brings its tables up to
// date. Several processes may run it at once. If there is nothing to do it only
// reads, so that a user without the right to create may call it.
func (c *Client) Migrate(ctx context.Context) error {
	db := ch.OpenDB(c.options)
	version, err := schema.Version(ctx, db)
	_ = db.Close() // only a read was made
	if err == nil && version >= schema.Latest() {
		return nil
	}
	if err := c.createDatabase(ctx); err != nil {
		return fmt.Errorf("clickhouse: create database %s: %w", c.options.Auth.Database, redacted(err))
	}
	db = ch.OpenDB(c.ddlOptions())
	if c.config.Cluster == "" {
		err = schema.Apply(ctx, db)
	} else {
		err = schema.ApplyReplicated(ctx, db, c.config.Cluster)
	}
	if closeErr := db.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("clickhouse: %w", redacted(err))
	}
	return nil
}

// ddlOptions let a statement for a whole cluster succeed while one of its
// servers is away: that server executes it when it is back.
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
