package schema

import (
	"context"
	"errors"
	"fmt"

	"github.com/pressly/goose/v3/database"
)

// versionTable records which migrations were applied.
const versionTable = "schema_version"

// createVersions differs from goose's own table. It is synced to disk like every
// other table here, because ClickHouse refuses to load a table whose newest part
// was cut short by a power loss. And rows that two processes insert for the same
// version merge into one.
const createVersions = `CREATE TABLE IF NOT EXISTS ` + versionTable + ` (
    version Int64,
    applied DateTime('UTC') DEFAULT now()
)
ENGINE = ReplacingMergeTree
ORDER BY version
SETTINGS
    fsync_after_insert = 1,
    fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1,
    min_compressed_bytes_to_fsync_after_merge = 1,
    max_suspicious_broken_parts = 1000`

// errNoWayBack refuses a downgrade: the migrations only go forward.
var errNoWayBack = errors.New("migrations cannot be undone")

// versions is goose's record of applied migrations.
type versions struct {
	cluster string // over which the table is replicated; empty: one server
}

var _ database.Store = versions{}

func (versions) Tablename() string { return versionTable }

func (v versions) CreateVersionTable(ctx context.Context, db database.DBTxConn) error {
	statement := []byte(createVersions)
	if v.cluster != "" {
		statement = onCluster(statement, v.cluster)
	}
	if _, err := db.ExecContext(ctx, string(statement)); err != nil {
		return fmt.Errorf("create table %s: %w", versionTable, err)
	}
	return nil
}

func (versions) Insert(ctx context.Context, db database.DBTxConn, req database.InsertRequest) error {
	statement := fmt.Sprintf("INSERT INTO %s (version) SELECT toInt64(%d)", versionTable, req.Version)
	if _, err := db.ExecContext(ctx, statement); err != nil {
		return fmt.Errorf("record version %d: %w", req.Version, err)
	}
	return nil
}

func (versions) Delete(context.Context, database.DBTxConn, int64) error {
	return errNoWayBack
}

func (versions) GetMigration(ctx context.Context, db database.DBTxConn, version int64) (*database.GetMigrationResult, error) {
	query := fmt.Sprintf("SELECT count(), max(applied) FROM %s WHERE version = %d", versionTable, version)
	var found uint64
	var result database.GetMigrationResult
	if err := db.QueryRowContext(ctx, query).Scan(&found, &result.Timestamp); err != nil {
		return nil, fmt.Errorf("read version %d: %w", version, err)
	}
	if found == 0 {
		return nil, database.ErrVersionNotFound
	}
	result.IsApplied = true
	return &result, nil
}

func (versions) GetLatestVersion(ctx context.Context, db database.DBTxConn) (int64, error) {
	var latest int64
	query := "SELECT max(version) FROM " + versionTable
	if err := db.QueryRowContext(ctx, query).Scan(&latest); err != nil {
		return 0, fmt.Errorf("read the newest version: %w", err)
	}
	return latest, nil
}

func (versions) ListMigrations(ctx context.Context, db database.DBTxConn) ([]*database.ListMigrationsResult, error) {
	rows, err := db.QueryContext(ctx, "SELECT DISTINCT version FROM "+versionTable+" ORDER BY version DESC")
	if err != nil {
		return nil, fmt.Errorf("list versions: %w", err)
	}
	defer func() { _ = rows.Close() }() // rows.Err has the error that matters

	var applied []*database.ListMigrationsResult
	for rows.Next() {
		one := &database.ListMigrationsResult{IsApplied: true}
		if err := rows.Scan(&one.Version); err != nil {
			return nil, fmt.Errorf("list versions: %w", err)
		}
		applied = append(applied, one)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list versions: %w", err)
	}
	return applied, nil
}
