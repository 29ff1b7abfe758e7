package stream_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/stream"
)

// A server that is stopped between two messages of an atomic batch leaves the
// batch's store open (nats-server 2.15.2); nothing else may stay behind.
func TestMain(m *testing.M) {
	if file := os.Getenv(memberVariable); file != "" {
		serveMember(file)
	}
	const server = "github.com/nats-io/nats-server/v2/server"
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction(server+".(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreTopFunction(server+".(*msgBlock).flushLoop"),
		goleak.IgnoreTopFunction(server+"/ats.Register.func1"),
	)
}

// patience bounds every wait of these tests; on a good day none comes near it.
const patience = 30 * time.Second

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
	q := &queue{tb: tb, cfg: embedded.NATSConfig{DataDir: tb.TempDir(), Token: "token-of-a-test", MaxStore: 32 << 30}}
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
	q.server, q.cfg.Port = server, server.Port()
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

// publisher runs until the test ends.
func (q *queue) publisher(topology *stream.Topology, cfg stream.PublisherConfig) *stream.Publisher {
	q.tb.Helper()
	return publisher(q.tb, topology, cfg)
}

func publisher(tb testing.TB, topology *stream.Topology, cfg stream.PublisherConfig) *stream.Publisher {
	tb.Helper()
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
	info, err := topology.Lag(q.ctx(), name)
	if err != nil {
		q.tb.Fatal(err)
	}
	if info.Messages == 0 {
		return nil
	}
	deliveries, err := topology.Refetch(q.ctx(), name, info.FirstSeq, info.LastSeq)
	if err != nil {
		q.tb.Fatal(err)
	}
	return deliveries
}

// fill publishes n messages of their own to the only logs stream.
func (q *queue) fill(p *stream.Publisher, n int) {
	q.tb.Helper()
	for i := range n {
		m := stream.Message{Kind: stream.Logs, Project: "shop", Parts: parts(fmt.Sprintf("message %d;", i+1))}
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
