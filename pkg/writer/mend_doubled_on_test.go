//go:build failpoint

package writer

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// mendVariable tells a process of these tests that it is to mend.
const mendVariable = "LOGBOOM_TEST_MEND"

// TestProcessOfAMender is a writer in a process of its own that replaces doubled
// rows, to be killed by its failpoint.
func TestProcessOfAMender(t *testing.T) {
	if os.Getenv(mendVariable) == "" {
		return
	}
	b := inherited(t)
	t.Error(b.killable(t).Run(t.Context()), "it was not killed")
}

// killable is a writer whose lease need not lapse when it was killed.
func (b *bench) killable(t *testing.T) *Writer {
	t.Helper()
	cfg := quick()
	cfg.Member, cfg.AuditEvery = "killed", 200*time.Millisecond
	w := over(b.writer(t, cfg, b.client), b.client)
	w.healEvery = 50 * time.Millisecond
	return w
}

// kill -9 between all steps of replacing, and then another process goes on.
func TestDoubledRowsAreThereOnceAfterAKillAtEveryFailpoint(t *testing.T) {
	t.Parallel()
	for at, stored := range map[string]string{ // rows that the kill leaves, of 60 and 40 doubled ones
		"before-erase:kill:1":  "100",
		"after-erase:kill:1":   "20",
		"after-insert:kill:1":  "", // an insert whose token may be known, and not store anything
		"before-commit:kill:1": "60",
	} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.keepParts(t, "logs") // or a deletion finds its parts merged
			b.filled(t, 3)
			b.double(t, "_seq >= 2")
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			process := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestProcessOfAMender$")
			process.Env = append(os.Environ(), mendVariable+"=1", queueVariable+"="+b.queue, clickhouseVariable+"="+b.url, failpointVariable+"="+at)
			output, err := process.CombinedOutput()
			if status, ok := process.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL || ctx.Err() != nil {
				t.Fatalf("the process ended with %v: %s", err, output)
			}
			if rows := b.ask(t, "SELECT count() FROM logs")[0]; stored != "" && rows != stored {
				t.Errorf("%s rows are left, %s were expected", rows, stored)
			}
			w := b.killable(t)
			b.run(t, w.Run)
			b.onceAgain(t, w, 60)
		})
	}
}
