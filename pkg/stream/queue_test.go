package stream_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/logboom/logboom/pkg/leaktest"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/stream/streamtest"
)

// A server that is stopped between two messages of an atomic batch leaves the
// batch's store open (nats-server 2.15.2); nothing else may be left.
func TestMain(m *testing.M) {
	if file := os.Getenv(memberVariable); file != "" {
		serveMember(file)
	}
	const server = "github.com/nats-io/nats-server/v2/server"
	leaktest.Main(m,
		goleak.IgnoreTopFunction(server+".(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreTopFunction(server+".(*msgBlock).flushLoop"),
		goleak.IgnoreTopFunction(server+"/ats.Register.func1"),
	)
}

const patience = streamtest.Patience

// queue is a real server of one test with calls for the tests of this package.
type queue struct{ *streamtest.Queue }

func newQueue(tb testing.TB) *queue {
	tb.Helper()
	return &queue{streamtest.New(tb)}
}

// ledger opens the ledger of the queue.
func (q *queue) ledger() *ledger.Ledger {
	q.TB.Helper()
	l, err := ledger.Open(q.Ctx(), q.JS, 1, nil)
	if err != nil {
		q.TB.Fatal(err)
	}
	return l
}

func (q *queue) letters() *stream.Letters { return stream.NewLetters(q.JS, ledger.Committed(q.JS)) }

// publisher runs a publisher until the test ends.
func (q *queue) publisher(topology *stream.Topology, cfg stream.PublisherConfig) *stream.Publisher {
	q.TB.Helper()
	return streamtest.Publisher(q.TB, topology, cfg)
}

// openThrough opens the topology on a connection through a proxy.
func (q *queue) openThrough(between *streamtest.Proxy, cfg stream.Config) *stream.Topology {
	q.TB.Helper()
	cfg.MaxBytes, cfg.DeadMaxBytes = proxiedBytes, proxiedDeadBytes
	topology, err := stream.Open(q.Ctx(), q.ConnectThrough(between), cfg)
	if err != nil {
		q.TB.Fatal(err)
	}
	return topology
}

// all reads every message of a stream.
func (q *queue) all(topology *stream.Topology, name string) []stream.Delivery {
	q.TB.Helper()
	info, err := q.info(topology, name)
	if err != nil {
		q.TB.Fatal(err)
	}
	if info.Messages == 0 {
		return nil
	}
	deliveries, err := q.readRange(topology, name, info.FirstSeq, info.LastSeq)
	if err != nil {
		q.TB.Fatal(err)
	}
	return deliveries
}

// info reads the state of a stream.
func (q *queue) info(topology *stream.Topology, name string) (stream.Info, error) {
	q.TB.Helper()
	ctx := q.Ctx()
	return streamtest.Answered(ctx, func() (stream.Info, error) { return topology.Info(ctx, name) })
}

func (q *queue) readRange(topology *stream.Topology, name string, from, to uint64) ([]stream.Delivery, error) {
	q.TB.Helper()
	ctx := q.Ctx()
	return streamtest.Answered(ctx, func() ([]stream.Delivery, error) { return topology.ReadRange(ctx, name, from, to) })
}

// fill publishes n messages, one by one, to the only logs stream.
func (q *queue) fill(p *stream.Publisher, n int) {
	q.TB.Helper()
	for i := range n {
		m := stream.Message{Kind: record.KindLog, Project: "shop", Parts: parts(fmt.Sprintf("message %d;", i+1))}
		if _, err := p.Publish(q.Ctx(), m); err != nil {
			q.TB.Fatal(err)
		}
	}
}

func parts(texts ...string) [][]byte {
	parts := make([][]byte, len(texts))
	for i, text := range texts {
		parts[i] = []byte(text)
	}
	return parts
}
