package cluster

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// processes are the Logboom images that the tests need.
var processes = []string{"ingest", "writer", "notifier", "admin"}

// images are the names of existing images.
type images struct {
	nats, redis, clickhouse string
	localTables             bool // the embedded engine instead of a ClickHouse server
}

// prepare builds the images of Logboom, and those of engines that no setting names.
func prepare(t *testing.T) images {
	t.Helper()
	wanted := slices.Clone(processes)
	name := func(engine, variable string) string {
		if image := os.Getenv(variable); image != "" {
			return image
		}
		wanted = append(wanted, engine)
		return "local/" + engine + ":latest"
	}
	set := images{
		nats:       name("nats", "LOGBOOM_TEST_NATS_IMAGE"),
		redis:      name("redis", "LOGBOOM_TEST_REDIS_IMAGE"),
		clickhouse: name("clickhouse", "LOGBOOM_TEST_CLICKHOUSE_IMAGE"),
	}
	set.localTables = set.clickhouse == "local/clickhouse:latest"
	script, err := filepath.Abs("../../../deploy/images/local.sh")
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if deadline, ok := t.Deadline(); ok { // a first build takes minutes; its output is still printed then
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-time.Minute))
		defer cancel()
	}
	began := time.Now()
	command := exec.CommandContext(ctx, script, wanted...)
	command.WaitDelay = time.Second // what the script started may hold its output
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build the images: %v\n%s", err, out)
	}
	t.Logf("images built in %s", time.Since(began).Round(time.Second))
	return set
}
