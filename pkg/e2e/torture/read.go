//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

const readTimeout = 3 * time.Minute

// readStatements read what the oracle needs of all rows.
var readStatements = map[string]string{
	"logs":   "SELECT data, _shard, _seq, _idx FROM logs",
	"events": "SELECT title, _shard, _seq, _idx FROM events",
}

const usageStatement = "SELECT sum(records) FROM usage FINAL WHERE measure IN ('logs', 'events')"

const detachedStatement = "SELECT concat(table, ' ', name) FROM system.detached_parts WHERE database = 'logboom' AND startsWith(reason, 'broken') ORDER BY 1"

// store reads ClickHouse without any code of the system under test.
type store struct{ conn driver.Conn }

func openStore(addr, password string) (*store, error) {
	conn, err := ch.Open(&ch.Options{
		Protocol:    ch.HTTP,
		Addr:        []string{addr},
		Auth:        ch.Auth{Database: "logboom", Username: "default", Password: password},
		ReadTimeout: readTimeout,
	})
	if err != nil {
		return nil, fmt.Errorf("open ClickHouse: %w", err)
	}
	return &store{conn: conn}, nil
}

// each calls the function with every row of both tables.
func (s *store) each(ctx context.Context, call func(row)) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	for kind, statement := range readStatements {
		if err := s.eachOf(ctx, kind, statement, call); err != nil {
			return fmt.Errorf("read %s back: %w", kind, err)
		}
	}
	return nil
}

func (s *store) eachOf(ctx context.Context, kind, statement string, call func(row)) error {
	rows, err := s.conn.Query(ctx, statement)
	if err != nil {
		return err
	}
	defer rows.Close()
	r := row{kind: kind}
	for rows.Next() {
		if err := rows.Scan(&r.text, &r.at.shard, &r.at.seq, &r.at.idx); err != nil {
			return err
		}
		call(r)
	}
	return rows.Err()
}

// detached returns the parts that ClickHouse put aside as broken. Their rows count
// as lost; this says where they are.
func (s *store) detached(ctx context.Context) (parts []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	rows, err := s.conn.Query(ctx, detachedStatement)
	if err != nil {
		return nil, fmt.Errorf("read the detached parts: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var part string
		if err := rows.Scan(&part); err != nil {
			return nil, fmt.Errorf("read the detached parts: %w", err)
		}
		parts = append(parts, part)
	}
	return parts, rows.Err()
}

// detachUnreadable takes parts out of use that ClickHouse cannot read. Its
// caches hide some of them from a plain query.
func (s *store) detachUnreadable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	ctx = ch.Context(ctx, ch.WithSettings(ch.Settings{"check_query_single_value_result": 0}))
	for _, table := range []string{"logs", "events", "usage"} {
		rows, err := s.conn.Query(ctx, "CHECK TABLE "+table)
		if err != nil {
			return fmt.Errorf("check %s: %w", table, err)
		}
		var parts []string
		for rows.Next() {
			var part, message string
			var passed uint8
			if err := rows.Scan(&part, &passed, &message); err != nil {
				return fmt.Errorf("check %s: %w", table, errors.Join(err, rows.Close()))
			}
			if passed == 0 {
				parts = append(parts, part)
			}
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return fmt.Errorf("check %s: %w", table, err)
		}
		for _, part := range parts {
			if err := s.conn.Exec(ctx, "ALTER TABLE "+table+" DETACH PART '"+part+"'"); err != nil {
				return fmt.Errorf("detach part %s of %s: %w", part, table, err)
			}
		}
	}
	return nil
}

// used returns how many stored records the usage table counts.
func (s *store) used(ctx context.Context) (records uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if err := s.conn.QueryRow(ctx, usageStatement).Scan(&records); err != nil {
		return 0, fmt.Errorf("read usage back: %w", err)
	}
	return records, nil
}

func (s *store) close() error { return s.conn.Close() }
