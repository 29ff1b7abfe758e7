// Package schema creates and upgrades the tables in ClickHouse: logs, events,
// usage and deliveries, one numbered SQL file per object.
//
// It runs before the writer and admin use a table. ClickHouse has no transactions
// and no locks for migrations, so the usual mistake is a file that may run only
// once: two processes that start together both run it, and a crash between a
// statement and its version row runs it again. Therefore every statement must do
// nothing on a second run (IF NOT EXISTS); a test checks this.
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

// Apply upgrades the database that db is connected to, to Latest. The database
// itself must exist. Several processes may run Apply at once and again; it does
// not change a newer database, so that an older process can start during a
// rolling upgrade.
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

// Version returns the number of the newest migration that the database has, 0 if
// it has none. It only reads.
func Version(ctx context.Context, db *sql.DB) (int64, error) {
	var exists uint8
	if err := db.QueryRowContext(ctx, "EXISTS TABLE "+versionTable).Scan(&exists); err != nil {
		return 0, fmt.Errorf("schema: check for table %s: %w", versionTable, err)
	}
	if exists == 0 {
		return 0, nil
	}
	version, err := versions{}.GetLatestVersion(ctx, db)
	if err != nil {
		return 0, fmt.Errorf("schema: %w", err)
	}
	return version, nil
}

// Latest returns the number of the newest migration in this program.
func Latest() int64 {
	latest := int64(0)
	for _, name := range names() {
		latest = max(latest, number(name))
	}
	return latest
}

// names returns the migration files in order.
func names() []string {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		panic("schema: " + err.Error()) // the pattern is a constant and well formed
	}
	return names
}

// number returns the version that a file's name begins with, 0 if it has none.
func number(name string) int64 {
	digits, _, _ := strings.Cut(name, "_")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
