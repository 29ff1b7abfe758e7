package lease_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/lease"
)

func TestProcessIsListedUntilItStops(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	ready := func(context.Context) error { return errors.New("clickhouse: away") }
	ctx, stop := context.WithCancel(q.Ctx())
	ended := make(chan error, 1) // one: Run returns once
	p := lease.NewPresence(q.JS, lease.Process{Name: "writer", Version: "1.2.3"}, ready, 1, slog.New(slog.DiscardHandler))
	go func() { ended <- p.Run(ctx) }()
	members := q.processes(1)
	if m := members[0]; m.Name != "writer" || m.Version != "1.2.3" || m.Unready != "clickhouse: away" || m.Started.IsZero() || m.Seen.IsZero() {
		t.Errorf("the process is %+v", m)
	}
	if err := lease.RefuseRunning(q.Ctx(), q.JS, "standalone", "writer"); err == nil || !strings.Contains(err.Error(), "a writer runs on") {
		t.Errorf("a running writer is not refused: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
	q.processes(0)
	if err := lease.RefuseRunning(q.Ctx(), q.JS, "writer"); err != nil {
		t.Errorf("after it stopped: %v", err)
	}
}

// processes waits until n processes are listed.
func (q *queue) processes(n int) []lease.Process {
	q.TB.Helper()
	deadline := time.Now().Add(patience)
	for {
		members, err := lease.Processes(q.Ctx(), q.JS)
		if err == nil && len(members) == n {
			return members
		}
		if time.Now().After(deadline) {
			q.TB.Fatalf("%d processes are there, not %d: %v", len(members), n, err)
		}
	}
}
