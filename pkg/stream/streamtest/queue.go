package streamtest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/kv"
	"github.com/logboom/logboom/pkg/stream"
)

// Patience bounds every wait of tests; usually none comes near it.
const Patience = 3 * time.Minute

// Queue is a real server of one test, with a connection to it.
type Queue struct {
	TB     testing.TB
	Server *embedded.NATS
	NC     *nats.Conn
	JS     jetstream.JetStream
	Config embedded.NATSConfig
}

// New starts a server with an empty folder, until the test ends.
func New(tb testing.TB) *Queue {
	tb.Helper()
	q := &Queue{TB: tb, Config: embedded.NATSConfig{DataDir: tb.TempDir(), Port: ReservePort(tb), Token: "token-of-a-test", MaxStore: 32 << 30}}
	q.Start()
	tb.Cleanup(q.Stop)
	q.NC, q.JS = q.Connect()
	return q
}

// Start starts the server again after Stop, on the same port and folder.
func (q *Queue) Start() {
	q.TB.Helper()
	server, err := embedded.StartNATS(q.Ctx(), q.Config)
	if err != nil {
		q.TB.Fatal(err)
	}
	q.Server = server
}

// Stop stops the server.
func (q *Queue) Stop() {
	if err := q.Server.Stop(context.Background()); err != nil {
		q.TB.Error(err)
	}
}

// Connect opens another connection to the server.
func (q *Queue) Connect() (*nats.Conn, jetstream.JetStream) {
	q.TB.Helper()
	return q.connect(q.Server.URL(), q.TB.Name())
}

func (q *Queue) connect(address, name string) (*nats.Conn, jetstream.JetStream) {
	q.TB.Helper()
	nc, js, err := stream.Connect(q.Ctx(), address, stream.ConnectConfig{Name: name})
	if err != nil {
		q.TB.Fatal(err)
	}
	q.TB.Cleanup(nc.Close)
	return nc, js
}

// ConnectThrough connects through a proxy.
func (q *Queue) ConnectThrough(p *Proxy) jetstream.JetStream {
	q.TB.Helper()
	_, js := q.connect(strings.Replace(q.Server.URL(), q.Server.Addr(), p.Address(), 1), "")
	return js
}

// Ctx returns a context that ends with the test's patience.
func (q *Queue) Ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	q.TB.Cleanup(cancel)
	return ctx
}

// Open opens the streams, small ones unless cfg says otherwise.
func (q *Queue) Open(cfg stream.Config) *stream.Topology {
	q.TB.Helper()
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = 256 << 20
	}
	if cfg.DeadMaxBytes == 0 {
		cfg.DeadMaxBytes = 64 << 20
	}
	topology, err := stream.Open(q.Ctx(), q.JS, cfg)
	if err != nil {
		q.TB.Fatal(err)
	}
	return topology
}

// Publisher runs a publisher until the test ends. It waits long for an answer,
// unless cfg says otherwise.
func Publisher(tb testing.TB, topology *stream.Topology, cfg stream.PublisherConfig) *stream.Publisher {
	tb.Helper()
	if cfg.AckTimeout == 0 {
		cfg.AckTimeout = Patience
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

// WaitFor repeats a check until it holds.
func (q *Queue) WaitFor(what string, holds func() bool) {
	q.TB.Helper()
	for ctx := q.Ctx(); !holds(); Pause() {
		if ctx.Err() != nil {
			q.TB.Fatalf("timed out waiting for %s", what)
		}
	}
}

// Pause keeps a loop from taking the processor from those that it waits for, and
// from filling the disk.
func Pause() { <-time.After(2 * time.Millisecond) }

// Answered repeats a call while it is not answered in time: one call waits two to
// five seconds for its answer, and a busy machine may be suspended for longer.
func Answered[T any](ctx context.Context, call func() (T, error)) (T, error) {
	for {
		answer, err := call()
		late := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, kv.ErrUnavailable) ||
			errors.Is(err, stream.ErrUnavailable) && strings.Contains(err.Error(), "no answer in time")
		if !late || ctx.Err() != nil {
			return answer, err
		}
	}
}

// Done is Answered for a call without a result.
func Done(ctx context.Context, call func() error) error {
	_, err := Answered(ctx, func() (any, error) { return nil, call() })
	return err
}
