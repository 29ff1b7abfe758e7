package stream

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// leaseEntry is a key as a look shows it.
type leaseEntry struct {
	jetstream.KeyValueEntry
	key      string
	value    string
	revision uint64
}

func (e leaseEntry) Key() string      { return e.key }
func (e leaseEntry) Value() []byte    { return []byte(e.value) }
func (e leaseEntry) Revision() uint64 { return e.revision }

func TestStandingStillIsMeasuredByWhatWasSeen(t *testing.T) {
	t.Parallel()
	l := &Leases{self: "a", log: slog.New(slog.DiscardHandler)}
	now := time.Unix(1_800_000_000, 0)
	look := func(after time.Duration, revision uint64) (alive, holds bool) {
		now = now.Add(after)
		l.learn([]jetstream.KeyValueEntry{
			leaseEntry{key: memberKeys + "a", revision: 1}, // one's own revision is never looked at
			leaseEntry{key: memberKeys + "b", revision: revision},
			leaseEntry{key: claimKeys + "0", value: `{"holder":"b"}`, revision: 3},
			leaseEntry{key: claimKeys + "1", value: `not json`, revision: 4},
		}, now)
		view := l.view()
		if !slices.Contains(view.Members, "a") || view.Holders["1"] != "" {
			t.Errorf("the view is %+v", view)
		}
		return slices.Contains(view.Members, "b"), view.Holders["0"] == "b"
	}
	for i, step := range []struct {
		after    time.Duration
		revision uint64
		alive    bool
	}{
		{0, 10, true},                // it may have died long ago: nobody can know yet
		{5 * time.Second, 10, true},  // an outage: 2 s of it count
		{time.Hour, 10, true},        // the same
		{time.Second, 11, true},      // it lives
		{2 * time.Second, 11, true},  // seen to stand still for 2 s
		{2 * time.Second, 11, true},  // 4 s
		{2 * time.Second, 11, false}, // 6 s
		{2 * time.Second, 12, true},  // it was only paused
	} {
		alive, holds := look(step.after, step.revision)
		if alive != step.alive || holds != step.alive {
			t.Errorf("step %d: alive is %v, its claim stands is %v, want %v", i, alive, holds, step.alive)
		}
	}
}
