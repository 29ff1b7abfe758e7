package stream_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/leaktest"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

// A server that is stopped between two messages of an atomic batch leaves the
// batch's store open (nats-server 2.15.2); nothing else may stay behind.
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

// queue is a real server of one test, with a connection to it.
type queue struct {
	tb     testing.TB
	cfg    embedded.NATSConfig
	server *embedded.NATS
	nc     *nats.Conn
	js     jetstream.JetStream
}

func newQueue(tb testing.TB) *queue {
	tb.Helper()
	q := &queue{tb: tb, cfg: embedded.NATSConfig{DataDir: tb.TempDir(), Port: reservePort(tb), Token: "token-of-a-test", MaxStore: 32 << 30}}
	q.start()
	tb.Cleanup(q.stop)
	q.nc, q.js = q.connect()
	return q
}

// start starts the server, after a stop on the same port and folder.
func (q *queue) start() {
	q.tb.Helper()
	server, err := embedded.StartNATS(q.ctx(), q.cfg)
	if err != nil {
		q.tb.Fatal(err)
	}
	q.server = server
}

func (q *queue) stop() {
	if err := q.server.Stop(context.Background()); err != nil {
		q.tb.Error(err)
	}
}

func (q *queue) connect() (*nats.Conn, jetstream.JetStream) {
	q.tb.Helper()
	nc, js, err := stream.Connect(q.ctx(), q.server.URL(), stream.ConnectConfig{Name: q.tb.Name()})
	if err != nil {
		q.tb.Fatal(err)
	}
	q.tb.Cleanup(nc.Close)
	return nc, js
}

// ctx ends with the test's patience.
func (q *queue) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	q.tb.Cleanup(cancel)
	return ctx
}

func (q *queue) open(cfg stream.Config) *stream.Topology {
	q.tb.Helper()
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = 256 << 20
	}
	if cfg.DeadMaxBytes == 0 {
		cfg.DeadMaxBytes = 64 << 20
	}
	topology, err := stream.Open(q.ctx(), q.js, cfg)
	if err != nil {
		q.tb.Fatal(err)
	}
	return topology
}

// publisher runs until the test ends. It waits long for an answer, unless it is
// told not to.
func (q *queue) publisher(topology *stream.Topology, cfg stream.PublisherConfig) *stream.Publisher {
	q.tb.Helper()
	return publisher(q.tb, topology, cfg)
}

func publisher(tb testing.TB, topology *stream.Topology, cfg stream.PublisherConfig) *stream.Publisher {
	tb.Helper()
	if cfg.AckTimeout == 0 {
		cfg.AckTimeout = patience
	}
	p, err := stream.NewPublisher(topology, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := p.Run(ctx); err != nil {
			tb.Error(err)
		}
	})
	tb.Cleanup(func() { stop(); running.Wait() })
	return p
}

// all reads every message of a stream.
func (q *queue) all(topology *stream.Topology, name string) []stream.Delivery {
	q.tb.Helper()
	info, err := q.lag(topology, name)
	if err != nil {
		q.tb.Fatal(err)
	}
	if info.Messages == 0 {
		return nil
	}
	deliveries, err := q.refetch(topology, name, info.FirstSeq, info.LastSeq)
	if err != nil {
		q.tb.Fatal(err)
	}
	return deliveries
}

// lag is the state of a stream.
func (q *queue) lag(topology *stream.Topology, name string) (stream.Info, error) {
	q.tb.Helper()
	ctx := q.ctx()
	return answered(ctx, func() (stream.Info, error) { return topology.Lag(ctx, name) })
}

func (q *queue) refetch(topology *stream.Topology, name string, from, to uint64) ([]stream.Delivery, error) {
	q.tb.Helper()
	ctx := q.ctx()
	return answered(ctx, func() ([]stream.Delivery, error) { return topology.Refetch(ctx, name, from, to) })
}

// fill publishes n messages of their own to the only logs stream.
func (q *queue) fill(p *stream.Publisher, n int) {
	q.tb.Helper()
	for i := range n {
		m := stream.Message{Kind: record.KindLog, Project: "shop", Parts: parts(fmt.Sprintf("message %d;", i+1))}
		if _, err := p.Publish(q.ctx(), m); err != nil {
			q.tb.Fatal(err)
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
