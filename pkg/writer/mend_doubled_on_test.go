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
func TestDoubledRowsAreThereOnceAfterAKillBetweenTheSteps(t *testing.T) {
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
			b.filled(t, 3)
			b.execute(t, "SYSTEM STOP MERGES logs")
			b.double(t, "_seq >= 2")
			b.execute(t, "SYSTEM START MERGES logs")
			ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
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

// A stream whose mender was killed may find its rows in one copy, because only
// one of two parts was rewritten: the deletion of the other may still come.
func TestMenderBeginsWithTheDeletionAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.filled(t, 2)
	b.double(t, "_seq = 1")
	w := b.healing(t, b.client)
	w.shards[0].workers[0].failpoints = parseFailpoint("before-erase:error:1")
	if _, err := orderDoubled(t.Context(), b.topology.Ledger(), "LOGS_0", 1); err != nil {
		t.Fatal(err)
	}
	stop := b.run(t, w.Run)
	eventually(t, "the intent", func() bool {
		positions, err := b.topology.Ledger().Positions(t.Context())
		return err == nil && len(b.mendings(t)) == 1 && positions[b.mendings(t)[0]].Intent != nil
	})
	stop()
	b.execute(t, "DELETE FROM logs WHERE _seq = 1 AND (_part, _part_offset) IN (SELECT _part, _part_offset FROM logs WHERE _seq = 1 ORDER BY _part DESC, _part_offset DESC LIMIT 20)")
	if rows := b.ask(t, "SELECT count() FROM logs"); rows[0] != "40" {
		t.Fatalf("%s rows are left", rows[0])
	}
	tables := &rewritten{Client: b.client}
	w = over(b.healing(t, b.client), tables)
	b.run(t, w.Run)
	b.onceAgain(t, w, 40)
	if tables.erased.Load() == 0 {
		t.Error("nothing was deleted")
	}
}
