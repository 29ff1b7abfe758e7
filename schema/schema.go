// Package schema creates and upgrades the tables in ClickHouse: logs, events,
// usage and deliveries, one numbered SQL file an object.
//
// It runs before the writer and admin touch a table. ClickHouse has no
// transactions and no locks to hold while migrating, so the usual mistake is a
// file that may run only once: two processes that start together both run it,
// and a crash between a statement and its version row runs it again. Every
// statement here must therefore do nothing on a second run (IF NOT EXISTS);
// a test holds all of them to it.
package schema

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"
)

//go:embed *.sql
var files embed.FS

// Apply brings the database that db is connected to up to Latest. The database
// itself must exist. It may run in several processes at once, and again; a
// database that is already newer is left as it is, so that an older process
// can still start during a rolling upgrade.
func Apply(ctx context.Context, db *sql.DB) error {
	return apply(ctx, db, files, versions{})
}

func apply(ctx context.Context, db *sql.DB, files fs.FS, store versions) error {
	migrations, err := goose.NewProvider(goose.DialectCustom, db, files,
		goose.WithStore(store),
		goose.WithIsolateDDL(true),
		goose.WithDisableGlobalRegistry(true),
	)
	if err != nil {
		return fmt.Errorf("schema: read the migrations: %w", err)
	}
	if _, err := migrations.Up(ctx); err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	return nil
}

// Version is the number of the newest migration that the database has, 0 when
// it has none. It changes nothing.
func Version(ctx context.Context, db *sql.DB) (int64, error) {
	var there uint8
	if err := db.QueryRowContext(ctx, "EXISTS TABLE "+versionTable).Scan(&there); err != nil {
		return 0, fmt.Errorf("schema: look for table %s: %w", versionTable, err)
	}
	if there == 0 {
		return 0, nil
	}
	version, err := versions{}.GetLatestVersion(ctx, db)
	if err != nil {
		return 0, fmt.Errorf("schema: %w", err)
	}
	return version, nil
}

// Latest is the number of the newest migration that this program carries.
func Latest() int64 {
	latest := int64(0)
	for _, name := range names() {
		latest = max(latest, number(name))
	}
	return latest
}

// names lists the migration files in order.
func names() []string {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		panic("schema: " + err.Error()) // the pattern is a constant and well formed
	}
	return names
}

// number is the version that a file's name begins with, 0 where it has none.
func number(name string) int64 {
	digits, _, _ := strings.Cut(name, "_")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
