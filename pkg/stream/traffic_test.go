package stream_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/logboom/logboom/pkg/lease"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/stream/streamtest"
)

// traffic is the load while servers are killed.
type traffic struct {
	t         *testing.T
	topology  *stream.Topology
	publisher *stream.Publisher
	ledger    *ledger.Ledger
	logs      sent
	events    sent
	beats     atomic.Uint64
	commits   atomic.Uint64

	read strings.Builder // what came out of LOGS_0, in order
}

// sent is what one sender published.
type sent struct {
	n        atomic.Uint64 // how many bodies were accepted
	mu       sync.Mutex
	accepted []string
	unknown  []string // may be stored or not
	refused  []string
}

// keyed publishes bodies one after the other until stop is closed. It repeats each
// with the same key until it is accepted.
func (tr *traffic) keyed(ctx context.Context, stop <-chan struct{}) error {
	for i := 0; !closed(stop); i++ {
		body := fmt.Sprintf("<log %d>", i)
		m := stream.Message{Kind: record.KindLog, Project: "shop", ID: body, Parts: parts(body)}
		_, err := tr.publisher.Publish(ctx, m)
		for ; err != nil; _, err = tr.publisher.Publish(ctx, m) {
			if !errors.Is(err, stream.ErrUnavailable) && !errors.Is(err, stream.ErrBusy) {
				return fmt.Errorf("%s: %w", body, err)
			}
			streamtest.Pause()
		}
		tr.logs.add(body, nil)
		streamtest.Pause()
	}
	return nil
}

// unkeyed publishes each body once, whatever the result.
func (tr *traffic) unkeyed(ctx context.Context, stop <-chan struct{}) error {
	for i := 0; !closed(stop) && ctx.Err() == nil; i++ {
		body := fmt.Sprintf("<event %d>", i)
		_, err := tr.publisher.Publish(ctx, stream.Message{Kind: record.KindEvent, Project: "shop", Parts: parts(body)})
		tr.events.add(body, err)
		streamtest.Pause()
	}
	return ctx.Err()
}

func closed(stop <-chan struct{}) bool {
	select {
	case <-stop:
		return true
	default:
		return false
	}
}

// add records the result of a body.
func (s *sent) add(body string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.accepted = append(s.accepted, body)
		s.n.Add(1)
	case errors.Is(err, stream.ErrUnknown):
		s.unknown = append(s.unknown, body)
	default:
		s.refused = append(s.refused, body)
	}
}

// begin starts everything. The returned function stops the senders, waits until
// everything that they published is read, and returns the first error.
func (tr *traffic) begin(ctx context.Context) (end func() error) {
	stop, beating, last := make(chan struct{}), make(chan struct{}), make(chan uint64, 1) // one: there is one last message
	var senders, readers errgroup.Group
	senders.Go(func() error { return tr.keyed(ctx, stop) })
	senders.Go(func() error { return tr.unkeyed(ctx, stop) })
	readers.Go(func() error { return tr.consume(ctx, last) })
	readers.Go(func() error { return tr.beat(ctx, beating) })
	return func() error {
		close(stop)
		err := senders.Wait()
		info, lagErr := streamtest.Answered(ctx, func() (stream.Info, error) { return tr.topology.Info(ctx, "LOGS_0") })
		last <- info.LastSeq
		close(beating)
		return errors.Join(err, lagErr, readers.Wait())
	}
}

// consume reads the logs in order and commits them in the ledger, as a writer does,
// until it has committed the sequence that it receives from last.
func (tr *traffic) consume(ctx context.Context, last <-chan uint64) error {
	reader := ledger.WriterKey("LOGS_0")
	position, err := tr.ledger.TakeOver(ctx, reader)
	if err != nil {
		return err
	}
	from, err := tr.topology.Consume(ctx, "LOGS_0", 1, stream.ConsumerConfig{})
	if err != nil {
		return err
	}
	defer from.Close()
	through := uint64(math.MaxUint64)
	for position.Committed < through {
		delivery, err := tr.next(ctx, from)
		if err != nil {
			return err
		}
		if delivery.Seq != 0 {
			if position, err = tr.ledger.Commit(ctx, reader, position, delivery.Seq, delivery.Time); err != nil {
				return err
			}
			tr.commits.Add(1)
		}
		select {
		case through = <-last:
		default:
		}
	}
	return nil
}

// next returns the next message, or the zero value where none comes for a while.
func (tr *traffic) next(ctx context.Context, from *stream.Consumer) (stream.Delivery, error) {
	waiting, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	delivery, err := from.Next(waiting)
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		return stream.Delivery{}, nil
	}
	tr.read.Write(delivery.Data)
	return delivery, err
}

// beat holds a lease, as a writer does.
func (tr *traffic) beat(ctx context.Context, stop <-chan struct{}) error {
	leases, err := lease.NewMember(tr.ledger.Bucket(), lease.Keys{Member: "l.member.", Claim: "l.claim."}, "one", slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		view, err := leases.Beat(ctx)
		if err == nil && view.Holders["LOGS_0"] == "" {
			_, err = leases.Claim(ctx, "LOGS_0")
		}
		if err == nil && view.Holders["LOGS_0"] == "one" {
			tr.beats.Add(1)
		}
		select {
		case <-tick.C:
		case <-stop:
			return streamtest.Done(ctx, func() error { return leases.Leave(ctx) })
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// awaitProgress waits until every part has made progress.
func (tr *traffic) awaitProgress(ctx context.Context, after string) {
	tr.t.Helper()
	counts := map[string]*atomic.Uint64{"logs": &tr.logs.n, "events": &tr.events.n, "commits": &tr.commits, "beats": &tr.beats}
	for what, count := range counts {
		goal := count.Load() + 3
		await(ctx, tr.t, what+" go on after "+after, func() bool { return count.Load() >= goal })
	}
}

// check compares what is stored with what was published.
func (s *sent) check(t *testing.T, stored string) {
	t.Helper()
	for _, body := range s.accepted {
		if n := strings.Count(stored, body); n != 1 {
			t.Errorf("%s was accepted and is there %d times", body, n)
		}
	}
	for _, body := range s.unknown {
		if n := strings.Count(stored, body); n > 1 {
			t.Errorf("%s was sent once and is there %d times", body, n)
		}
	}
	for _, body := range s.refused {
		if strings.Contains(stored, body) {
			t.Errorf("%s was refused and is there", body)
		}
	}
	t.Logf("%d bodies were accepted, %d refused, of %d nobody knows", len(s.accepted), len(s.refused), len(s.unknown))
}

// check checks all counts and the position in the ledger.
func (tr *traffic) check(ctx context.Context) {
	tr.t.Helper()
	tr.logs.check(tr.t, tr.read.String())
	info, err := streamtest.Answered(ctx, func() (stream.Info, error) { return tr.topology.Info(ctx, "EVENTS_0") })
	if err != nil {
		tr.t.Fatal(err)
	}
	deliveries, err := streamtest.Answered(ctx, func() ([]stream.Delivery, error) { return tr.topology.ReadRange(ctx, "EVENTS_0", 1, info.LastSeq) })
	if err != nil {
		tr.t.Fatal(err)
	}
	var stored strings.Builder
	for _, delivery := range deliveries {
		stored.Write(delivery.Data)
	}
	tr.events.check(tr.t, stored.String())
	if info, err = streamtest.Answered(ctx, func() (stream.Info, error) { return tr.topology.Info(ctx, "LOGS_0") }); err != nil {
		tr.t.Fatal(err)
	}
	position, err := tr.ledger.TakeOver(ctx, ledger.WriterKey("LOGS_0"))
	if err != nil || position.Epoch != 2 || position.Committed != info.LastSeq {
		tr.t.Errorf("the ledger ends at %+v (%v), want the second epoch and %d", position, err, info.LastSeq)
	}
}
