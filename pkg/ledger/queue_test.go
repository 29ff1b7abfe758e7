package ledger_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/logboom/logboom/pkg/leaktest"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/stream/streamtest"
)

// A stopped server may leave a store's goroutines (nats-server 2.15.2).
func TestMain(m *testing.M) {
	const server = "github.com/nats-io/nats-server/v2/server"
	leaktest.Main(m,
		goleak.IgnoreTopFunction(server+".(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreTopFunction(server+".(*msgBlock).flushLoop"),
		goleak.IgnoreTopFunction(server+"/ats.Register.func1"),
	)
}

const reader = "w.LOGS_0"

// queue is a real server of one test with calls for the tests of this package.
type queue struct{ *streamtest.Queue }

func newQueue(tb testing.TB) *queue {
	tb.Helper()
	return &queue{streamtest.New(tb)}
}

func (q *queue) ledger() *ledger.Ledger {
	q.TB.Helper()
	return q.ledgerOn(q.JS)
}

func (q *queue) ledgerOn(js jetstream.JetStream) *ledger.Ledger {
	q.TB.Helper()
	ctx := q.Ctx()
	l, err := streamtest.Answered(ctx, func() (*ledger.Ledger, error) { return ledger.Open(ctx, js, 1, nil) })
	if err != nil {
		q.TB.Fatal(err)
	}
	return l
}

func (q *queue) takeOver(l *ledger.Ledger) ledger.Position {
	q.TB.Helper()
	p, err := l.TakeOver(q.Ctx(), reader)
	if err != nil {
		q.TB.Fatal(err)
	}
	return p
}

// commit makes the writer of a stream commit everything up to a sequence.
func (q *queue) commit(name string, to uint64) {
	q.TB.Helper()
	l := q.ledger()
	p, err := l.TakeOver(q.Ctx(), ledger.WriterKey(name))
	if err == nil {
		_, err = l.Commit(q.Ctx(), ledger.WriterKey(name), p, to, time.Time{})
	}
	if err != nil {
		q.TB.Fatal(err)
	}
}

// bucket is the ledger's bucket as an operator sees it.
func (q *queue) bucket() jetstream.KeyValue {
	q.TB.Helper()
	bucket, err := q.JS.KeyValue(q.Ctx(), ledger.BucketName)
	if err != nil {
		q.TB.Fatal(err)
	}
	return bucket
}

// tables are the newest rows, by stream.
type tables map[string]uint64

func (s tables) last(_ context.Context, kind record.Kind, shard int, above uint64) (uint64, error) {
	if last := s[stream.Name(kind, shard)]; last > above {
		return last, nil
	}
	return 0, nil
}
