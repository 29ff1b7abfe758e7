package stream_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/stream/streamtest"
)

func (q *queue) consume(topology *stream.Topology, name string, from uint64, cfg stream.ConsumerConfig) *stream.Consumer {
	q.TB.Helper()
	c, err := topology.Consume(q.Ctx(), name, from, cfg)
	if err != nil {
		q.TB.Fatal(err)
	}
	q.TB.Cleanup(c.Close)
	return c
}

func TestConsumerReadsInOrderFromASequenceOn(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.Open(stream.Config{Shards: 1})
	p := q.publisher(topology, stream.PublisherConfig{})
	q.fill(p, 50)
	before := time.Now()
	// Small limits, so that many pulls are needed.
	c := q.consume(topology, "LOGS_0", 11, stream.ConsumerConfig{MaxMessages: 7})
	for want := uint64(11); want <= 50; want++ {
		d, err := c.Next(q.Ctx())
		if err != nil {
			t.Fatal(err)
		}
		if d.Seq != want || d.Stream != "LOGS_0" || d.Subject != "logs.0" || d.Pending != 50-want ||
			string(d.Data) != fmt.Sprintf("message %d;", want) || d.Time.After(before) || before.Sub(d.Time) > patience {
			t.Fatalf("got %+v, want sequence %d", d, want)
		}
	}
	ctx, cancel := context.WithTimeout(q.Ctx(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("at the end: %v", err)
	}
	q.fill(p, 1)
	if d, err := c.Next(q.Ctx()); err != nil || d.Seq != 51 {
		t.Errorf("after the end: %+v, %v", d, err)
	}
}

func TestConsumerContinuesAfterLargeMessages(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.Open(stream.Config{Shards: 1})
	p := q.publisher(topology, stream.PublisherConfig{})
	for range 6 { // more than one pull's bytes
		m := stream.Message{Kind: record.KindLog, Project: "shop", Parts: [][]byte{make([]byte, 3<<20)}}
		if _, err := p.Publish(q.Ctx(), m); err != nil {
			t.Fatal(err)
		}
	}
	c := q.consume(topology, "LOGS_0", 1, stream.ConsumerConfig{MaxBytes: 1})
	for want := uint64(1); want <= 6; want++ {
		if d, err := c.Next(q.Ctx()); err != nil || d.Seq != want || len(d.Data) != 3<<20 {
			t.Fatalf("got %d bytes at %d, %v; want sequence %d", len(d.Data), d.Seq, err, want)
		}
	}
}

func TestConsumerOfOneSubjectSkipsTheOthers(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.Open(stream.Config{Shards: 1})
	p := q.publisher(topology, stream.PublisherConfig{})
	for i := range 6 {
		m := stream.Message{Kind: record.KindEvent, Project: "shop", Notify: i%3 == 2, Parts: parts("event")}
		if _, err := p.Publish(q.Ctx(), m); err != nil {
			t.Fatal(err)
		}
	}
	c := q.consume(topology, "EVENTS_0", 1, stream.ConsumerConfig{Subject: stream.NotifySubject(0)})
	for _, want := range []uint64{3, 6} {
		if d, err := c.Next(q.Ctx()); err != nil || d.Seq != want || d.Subject != "events.0.notify" {
			t.Errorf("got %+v, %v; want sequence %d", d, err, want)
		}
	}
}

func TestConsumerContinuesThroughRestartsAndCuts(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	between := streamtest.NewProxy(t, q.Server.Addr())
	writing := q.Open(stream.Config{Shards: 1})
	p := q.publisher(writing, stream.PublisherConfig{})
	c := q.consume(q.openThrough(between, stream.Config{}), "LOGS_0", 1, stream.ConsumerConfig{MaxMessages: 10})

	const rounds, each = 6, 40
	read := make(chan uint64)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(read)
		for want := uint64(1); want <= rounds*each; want++ {
			d, err := c.Next(q.Ctx())
			if err != nil || d.Seq != want {
				t.Errorf("got %d, %v; want %d", d.Seq, err, want)
				return
			}
			read <- d.Seq
		}
	})
	for round := range uint64(rounds) {
		for range each {
			publishUntilAccepted(t, q, p)
		}
		for seq := range read {
			if seq == round*each+each/2 {
				break
			}
		}
		if round%3 == 2 {
			q.Stop()
			q.Start()
		} else {
			between.Cut()
		}
	}
	for range read {
	}
	reading.Wait()
}

func TestConsumerNoticesASilentConnection(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	between := streamtest.NewProxy(t, q.Server.Addr())
	p := q.publisher(q.Open(stream.Config{Shards: 1}), stream.PublisherConfig{})
	q.fill(p, 1)
	c := q.consume(q.openThrough(between, stream.Config{}), "LOGS_0", 1, stream.ConsumerConfig{})
	if _, err := c.Next(q.Ctx()); err != nil {
		t.Fatal(err)
	}
	between.Mute()
	q.fill(p, 1)
	if d, err := c.Next(q.Ctx()); err != nil || d.Seq != 2 {
		t.Errorf("got %+v, %v; want sequence 2", d, err)
	}
}

func TestConsumerReportsAGap(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.Open(stream.Config{Shards: 1})
	p := q.publisher(topology, stream.PublisherConfig{})
	q.fill(p, 10)
	reading := q.consume(topology, "LOGS_0", 1, stream.ConsumerConfig{MaxMessages: 1})
	if d, err := reading.Next(q.Ctx()); err != nil || d.Seq != 1 {
		t.Fatal(d, err)
	}
	purge(t, q, "LOGS_0", 8)

	_, err := topology.Consume(q.Ctx(), "LOGS_0", 5, stream.ConsumerConfig{})
	wantGap(t, "a start before the first message", err, 5, 8)
	_, err = topology.Consume(q.Ctx(), "LOGS_0", 12, stream.ConsumerConfig{})
	wantGap(t, "a start behind the last message", err, 12, 11)
	for err = nil; err == nil; { // what was fetched before the purge is still good
		_, err = reading.Next(q.Ctx())
	}
	var gap *stream.GapError
	if !errors.As(err, &gap) || gap.Got != 8 || gap.Want > 3 {
		t.Errorf("while reading: %v", err)
	}
	if d, err := q.consume(topology, "LOGS_0", 0, stream.ConsumerConfig{}).Next(q.Ctx()); err != nil || d.Seq != 8 {
		t.Errorf("from the oldest on: %+v, %v; want sequence 8", d, err)
	}
}

func TestConsumerReportsALostQueueAfterARestart(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.Open(stream.Config{Shards: 1})
	p := q.publisher(topology, stream.PublisherConfig{})
	q.fill(p, 3)
	c := q.consume(topology, "LOGS_0", 1, stream.ConsumerConfig{})
	for range 3 {
		if _, err := c.Next(q.Ctx()); err != nil {
			t.Fatal(err)
		}
	}
	q.Stop()
	q.Config.DataDir = t.TempDir()
	q.Start()
	_, js := q.Connect()
	if _, err := stream.Open(q.Ctx(), js, stream.Config{Shards: 1, MaxBytes: 8 << 20, DeadMaxBytes: 8 << 20}); err != nil {
		t.Fatal(err)
	}
	_, err := c.Next(q.Ctx())
	wantGap(t, "an empty queue in place of the old one", err, 4, 1)
}

func TestClosedConsumerReturnsErrClosed(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.Open(stream.Config{Shards: 1})
	closed := q.consume(topology, "LOGS_0", 1, stream.ConsumerConfig{})
	closed.Close()
	if _, err := closed.Next(q.Ctx()); !errors.Is(err, stream.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
	cutOff := q.consume(topology, "LOGS_0", 1, stream.ConsumerConfig{})
	q.NC.Close()
	if _, err := cutOff.Next(q.Ctx()); !errors.Is(err, stream.ErrClosed) {
		t.Errorf("on a closed connection: got %v, want ErrClosed", err)
	}
}

func TestClosedConsumerLeavesNothingOnTheServer(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.Open(stream.Config{Shards: 1})
	q.consume(topology, "LOGS_0", 1, stream.ConsumerConfig{}).Close()
	q.WaitFor("the consumer to go", func() bool {
		s, err := q.JS.Stream(q.Ctx(), "LOGS_0")
		return err == nil && s.CachedInfo().State.Consumers == 0
	})
}

func TestReadRangeReadsExactlyTheRange(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.Open(stream.Config{Shards: 1})
	q.fill(q.publisher(topology, stream.PublisherConfig{}), 9)
	deliveries, err := q.readRange(topology, "LOGS_0", 4, 6)
	if err != nil || len(deliveries) != 3 || deliveries[0].Seq != 4 || string(deliveries[2].Data) != "message 6;" {
		t.Errorf("got %+v, %v", deliveries, err)
	}
	_, err = q.readRange(topology, "LOGS_0", 8, 12)
	wantGap(t, "a range beyond the end", err, 12, 10)
	purge(t, q, "LOGS_0", 5)
	_, err = q.readRange(topology, "LOGS_0", 4, 6)
	wantGap(t, "a range that was purged", err, 4, 5)
	for _, bad := range [][2]uint64{{0, 3}, {5, 4}} {
		if _, err := q.readRange(topology, "LOGS_0", bad[0], bad[1]); err == nil || !strings.Contains(err.Error(), "range") {
			t.Errorf("range %v: %v", bad, err)
		}
	}
}

func wantGap(t *testing.T, what string, err error, want, got uint64) {
	t.Helper()
	var gap *stream.GapError
	if !errors.As(err, &gap) || gap.Stream != "LOGS_0" || gap.Want != want || gap.Got != got {
		t.Errorf("%s: got %v, want a gap from %d to %d", what, err, want, got)
	}
}

// purge removes the messages below a sequence, as an operator might.
func purge(t *testing.T, q *queue, name string, below uint64) {
	t.Helper()
	s, err := q.JS.Stream(q.Ctx(), name)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(q.Ctx(), jetstream.WithPurgeSequence(below)); err != nil {
		t.Fatal(err)
	}
}
