package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/stream/streamtest"
)

// written returns a queue of one shard with ten logs, all of them committed.
func written(t *testing.T) (*queue, *stream.Topology) {
	t.Helper()
	q := newQueue(t)
	topology := q.Open(stream.Config{Shards: 1})
	p := streamtest.Publisher(t, topology, stream.PublisherConfig{})
	for range 10 {
		if _, err := p.Publish(q.Ctx(), stream.Message{Kind: record.KindLog, Project: "shop", Parts: [][]byte{[]byte("x")}}); err != nil {
			t.Fatal(err)
		}
	}
	q.commit("LOGS_0", 10)
	return q, topology
}

// rewind calls Rewind at a time, and again where the queue did not answer in time.
func (q *queue) rewind(topology *stream.Topology, newest stream.Stored, now time.Time) (moved []ledger.Rewound, err error) {
	ctx := q.Ctx()
	err = streamtest.Done(ctx, func() error {
		some, err := q.ledger().RewindAt(ctx, topology, newest, now)
		moved = append(moved, some...)
		return err
	})
	return moved, err
}

func TestRewindGoesBackToTheNewestRow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		row, purged uint64 // the newest that is stored; the last that the queue has purged
		want        string
		committed   uint64
	}{
		"the queue has all of it":            {4, 0, "[{LOGS_0 5 10 0}]", 4},
		"the queue has some of it":           {4, 6, "[{LOGS_0 7 10 2}]", 6},
		"the queue has none of it":           {4, 10, "[{LOGS_0 11 10 6}]", 10},
		"the tables are empty":               {0, 0, "[{LOGS_0 1 10 0}]", 0},
		"nothing is lacking":                 {10, 0, "[]", 10},
		"the queue has more than is missing": {8, 3, "[{LOGS_0 9 10 0}]", 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, topology := written(t)
			if c.purged > 0 {
				logs, err := q.JS.Stream(q.Ctx(), "LOGS_0")
				if err == nil {
					err = logs.Purge(q.Ctx(), jetstream.WithPurgeSequence(c.purged+1))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			got, err := q.rewind(topology, tables{"LOGS_0": c.row}.last, time.Now())
			if err != nil || fmt.Sprint(got) != c.want {
				t.Fatalf("got %v, %v, want %s", got, err, c.want)
			}
			if p := q.takeOver(q.ledger()); p.Committed != c.committed {
				t.Errorf("the writer continues after %d, want %d", p.Committed, c.committed)
			}
			again, err := q.rewind(topology, tables{"LOGS_0": c.row}.last, time.Now())
			if err != nil || len(again) > 0 && again[0].First <= c.committed {
				t.Errorf("once more: %v, %v", again, err)
			}
		})
	}
}

// An insert that was sent before the writer died may still become visible: the
// newest row of now is not the newest then.
func TestRewindRefusesWhileAnInsertMayBecomeVisible(t *testing.T) {
	t.Parallel()
	q, topology := written(t)
	l := q.ledger()
	before := q.takeOver(l)
	if _, err := l.Intend(q.Ctx(), reader, before, ledger.Intent{From: 11, To: 12, Hash: "x"}); err != nil {
		t.Fatal(err)
	}
	have := tables{"LOGS_0": 4}
	if got, err := q.rewind(topology, have.last, time.Now()); err == nil || !strings.Contains(err.Error(), "LOGS_0: an insert may still become visible") {
		t.Errorf("right after the intent: %v, %v", got, err)
	}
	got, err := q.rewind(topology, have.last, time.Now().Add(2*time.Minute))
	if err != nil || fmt.Sprint(got) != "[{LOGS_0 5 10 0}]" {
		t.Fatalf("later: %v, %v", got, err)
	}
	if p := q.takeOver(l); p.Committed != 4 || p.Intent != nil {
		t.Errorf("the writer continues after %d with the intent %v", p.Committed, p.Intent)
	}
	if _, err := l.Commit(q.Ctx(), reader, before, 10, time.Time{}); !errors.Is(err, ledger.ErrFenced) {
		t.Errorf("the writer of before got %v, want ErrFenced", err)
	}
}

func TestRewindMovesNothingWhenItIsNotKnownWhatIsStored(t *testing.T) {
	t.Parallel()
	q, topology := written(t)
	away := errors.New("no answer")
	_, err := q.rewind(topology, func(context.Context, record.Kind, int, uint64) (uint64, error) { return 0, away }, time.Now())
	if p := q.takeOver(q.ledger()); !errors.Is(err, away) || p.Committed != 10 {
		t.Errorf("got %v, and the ledger is at %d", err, p.Committed)
	}
}
