//go:build failpoint

package writer

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/stream"
)

// Environment variables with the engines of the process of TestProcessOfAWriter.
const (
	queueVariable      = "LOGBOOM_TEST_QUEUE"
	clickhouseVariable = "LOGBOOM_TEST_CLICKHOUSE"
)

// TestProcessOfAWriter runs a writer in a process of its own, which its failpoint
// kills. Without the environment variables it does nothing.
func TestProcessOfAWriter(t *testing.T) {
	if os.Getenv(queueVariable) == "" {
		return
	}
	b := inherited(t)
	cfg := quick()
	b.member = "killed"
	t.Error(b.writer(t, cfg, b.client).Run(t.Context()), "it was not killed")
}

// inherited returns the engines in the environment variables.
func inherited(t *testing.T) *bench {
	t.Helper()
	nc, js, err := stream.Connect(t.Context(), os.Getenv(queueVariable), stream.ConnectConfig{Name: "killed"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	b := &bench{}
	if b.topology, err = stream.Open(t.Context(), js, stream.Config{}); err != nil {
		t.Fatal(err)
	}
	if b.ledger, err = ledger.Open(t.Context(), js, 1, nil); err != nil {
		t.Fatal(err)
	}
	if b.client, err = openClickHouse(os.Getenv(clickhouseVariable)); err != nil {
		t.Fatal(err)
	}
	return b
}

// SIGKILL at each point of a batch's path, and then another process takes over.
func TestRowsAreStoredOnceAfterAKillAtEveryFailpoint(t *testing.T) {
	t.Parallel()
	for _, at := range []point{pointTakeOver, pointBeforeIntent, pointAfterIntent, pointAfterInsert, pointBeforeCommit, pointAfterCommit} {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			for i := range 10 {
				b.publish(t, fmt.Sprint(i), 60)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			process := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestProcessOfAWriter$")
			process.Env = append(os.Environ(), queueVariable+"="+b.queue, clickhouseVariable+"="+b.url, failpointVariable+"="+string(at)+":kill:2")
			output, err := process.CombinedOutput()
			if status, ok := process.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL || ctx.Err() != nil {
				t.Fatalf("the process ended with %v: %s", err, output)
			}
			cfg := quick()
			b.member = "killed" // so that it need not wait until the lease expires
			b.run(t, b.writer(t, cfg, b.client).Run)
			b.waitStored(t)
			checkOnce(t, b.lines(t), 600)
		})
	}
}

func TestWriterContinuesAfterEveryFailpoint(t *testing.T) {
	t.Parallel()
	for _, at := range []point{pointTakeOver, pointBeforeIntent, pointAfterIntent, pointAfterInsert, pointBeforeCommit, pointAfterCommit} {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			w := b.writer(t, quick(), b.client)
			w.shards[0].workers[0].failpoints = parseFailpoint(string(at) + ":error:1")
			b.run(t, w.Run)
			for i := range 5 {
				b.publish(t, fmt.Sprint(i), 60)
			}
			b.waitStored(t)
			checkOnce(t, b.lines(t), 300)
		})
	}
}

func TestFailpointHappensOnceAtItsTime(t *testing.T) {
	t.Parallel()
	f := parseFailpoint("after-insert:error:3")
	for i := 1; i <= 5; i++ {
		if err := f.hit(pointAfterInsert); (err != nil) != (i == 3) {
			t.Errorf("time %d: %v", i, err)
		}
		if err := f.hit(pointBeforeIntent); err != nil {
			t.Errorf("another point: %v", err)
		}
	}
}

func TestMalformedFailpointFailsEverywhere(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"x", "after-insert:error", "after-insert:pray:1", "nowhere:kill:1", "after-insert:kill:0"} {
		if err := parseFailpoint(text).hit(pointTakeOver); err == nil || !strings.Contains(err.Error(), failpointVariable) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := parseFailpoint("").hit(pointTakeOver); err != nil {
		t.Error(err)
	}
}
