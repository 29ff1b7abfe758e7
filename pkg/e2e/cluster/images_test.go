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

// processes are the images of our own that the tests need.
var processes = []string{"ingest", "writer", "notifier", "admin"}

// images are names of images that are there.
type images struct {
	nats, redis, clickhouse string
	localTables             bool // the embedded engine in place of a ClickHouse server
}

// prepare builds our images, and of the engines' those that are not given.
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
	if deadline, ok := t.Deadline(); ok { // a build from nothing takes minutes; what it printed is still told then
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
