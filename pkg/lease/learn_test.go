package lease

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/kv"
)

func TestMemberIsGoneAfterSixSecondsUnchanged(t *testing.T) {
	t.Parallel()
	keys := Keys{Member: "l.member.", Claim: "l.claim."}
	l := &Member{name: "a", keys: keys, log: slog.New(slog.DiscardHandler)}
	now := time.Unix(1_800_000_000, 0)
	look := func(after time.Duration, revision uint64) (alive, holds bool) {
		now = now.Add(after)
		l.learn([]kv.Entry{
			{Key: keys.Member + "a", Revision: 1}, // one's own revision is never looked at
			{Key: keys.Member + "b", Revision: revision},
			{Key: keys.Claim + "0", Value: []byte(`{"holder":"b"}`), Revision: 3},
			{Key: keys.Claim + "1", Value: []byte(`not json`), Revision: 4},
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
