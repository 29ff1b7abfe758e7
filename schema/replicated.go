package schema

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"regexp"
)

// ApplyReplicated is Apply for a cluster in which every server holds a
// copy: it runs the same migrations on all of them. The name of the cluster
// becomes part of the statements, so it may have only letters, digits, _ . and -.
// docs/decisions/0009-replicated-clickhouse.md says what else a cluster needs.
func ApplyReplicated(ctx context.Context, db *sql.DB, cluster string) error {
	if !clusterName.MatchString(cluster) {
		return fmt.Errorf("schema: cluster %q: want 1 to 64 letters, digits, _ . and -", cluster)
	}
	return apply(ctx, db, replicated{cluster: cluster, files: files}, versions{cluster: cluster})
}

var clusterName = regexp.MustCompile(`^[0-9A-Za-z_.-]{1,64}$`)

// replicated is the migrations in their form for a cluster. Each is one statement
// whose first line names the table.
type replicated struct {
	cluster string
	files   fs.FS
}

var (
	statementHead = regexp.MustCompile(`(?m)^(CREATE TABLE IF NOT EXISTS|ALTER TABLE|DROP TABLE IF EXISTS) (\w+)`)
	engineName    = regexp.MustCompile(`(?m)^ENGINE = (\w*MergeTree)\b`)
	plainWindow   = regexp.MustCompile(`\bnon_replicated_deduplication_window = (\d+)`)
)

// tokensKept is how long Keeper remembers an insert's token, in seconds: another
// writer has long taken over from one that is paused for so long. The number of
// tokens is that of the plain form.
const tokensKept = 7 * 24 * 3600

// onCluster returns a statement in its form for a cluster. The table's path in
// Keeper and the replica's name are the server's defaults, made of the table's
// UUID and the macros shard and replica.
func onCluster(statement []byte, cluster string) []byte {
	statement = statementHead.ReplaceAll(statement, []byte("$1 $2 ON CLUSTER '"+cluster+"'"))
	statement = engineName.ReplaceAll(statement, []byte("ENGINE = Replicated$1"))
	windows := fmt.Appendf(nil, "replicated_deduplication_window = $1,\n    replicated_deduplication_window_seconds = %d", tokensKept)
	return plainWindow.ReplaceAll(statement, windows)
}

// Open implements fs.FS.
func (r replicated) Open(name string) (fs.File, error) {
	file, err := r.files.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil || info.IsDir() {
		return file, err
	}
	defer func() { _ = file.Close() }() // it was only read
	text, err := fs.ReadFile(r.files, name)
	if err != nil {
		return nil, err
	}
	text = onCluster(text, r.cluster)
	return &rewritten{Reader: bytes.NewReader(text), info: rewrittenInfo{info, int64(len(text))}}, nil
}

// ReadDir implements fs.ReadDirFS.
func (r replicated) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(r.files, name) }

// rewritten is a migration's file with a changed text.
type rewritten struct {
	*bytes.Reader
	info rewrittenInfo
}

func (f *rewritten) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *rewritten) Close() error               { return nil }

type rewrittenInfo struct {
	fs.FileInfo
	size int64
}

func (i rewrittenInfo) Size() int64 { return i.size }
