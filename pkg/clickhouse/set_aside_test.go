package clickhouse

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/embedded/engine"
	"github.com/logboom/logboom/pkg/record"
)

// A part whose files are damaged while the engine is away is put aside when it
// starts, which nobody would notice.
func TestPartThatIsSetAsideAsBrokenIsNamed(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	start := func() (*engine.Engine, *Client) {
		e, err := engine.Start(t.Context(), engine.Config{DataDir: folder, StartTimeout: 5 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Stop(context.Background()) }) // a second time does nothing
		client := opened(t, Config{URL: e.URL()})
		if err := client.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		return e, client
	}
	e, client := start()
	var block LogBlock
	block.Append(Row{Seq: 1, Received: noon, Project: project, RetentionDays: 30}, &record.Log{Data: "a"})
	if err := client.InsertLogs(t.Context(), "t", &block); err != nil {
		t.Fatal(err)
	}
	if parts, err := client.SetAside(t.Context()); err != nil || len(parts) != 0 {
		t.Fatalf("set aside: %v, %v", parts, err)
	}
	if err := e.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	damage(t, folder)
	_, client = start()
	parts, err := client.SetAside(t.Context())
	if err != nil || len(parts) != 1 || parts[0].Table != "logs" || !parts[0].Broken || parts[0].Overlapped {
		t.Fatalf("set aside: %v, %v", parts, err)
	}
}

// damage empties the list of columns of the only part of logs.
func damage(t *testing.T, folder string) {
	t.Helper()
	found := ""
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Name() == "columns.txt" {
			content, readErr := os.ReadFile(path)
			if readErr == nil && strings.Contains(string(content), "`severity_number`") {
				found = path
			}
		}
		return err
	})
	if err != nil || found == "" {
		t.Fatalf("no part of logs in %s: %v", folder, err)
	}
	if err := os.WriteFile(found, []byte("no list of columns"), 0o600); err != nil {
		t.Fatal(err)
	}
}
