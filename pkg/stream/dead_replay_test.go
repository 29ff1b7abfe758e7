package stream_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/stream"
)

// commit makes the writer of a stream be done with everything up to a sequence.
func (q *queue) commit(topology *stream.Topology, name string, to uint64) {
	q.TB.Helper()
	p, err := q.ledger().TakeOver(q.Ctx(), ledger.WriterKey(name))
	if err != nil {
		q.TB.Fatal(err)
	}
	if _, err := q.ledger().Commit(q.Ctx(), ledger.WriterKey(name), p, to, time.Time{}); err != nil {
		q.TB.Fatal(err)
	}
}

func (q *queue) messages(topology *stream.Topology, name string) uint64 {
	q.TB.Helper()
	info, err := q.lag(topology, name)
	if err != nil {
		q.TB.Fatal(err)
	}
	return info.Messages
}

func TestReplayPutsTheMessageBackWhereItWasAndRemovesTheLetter(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ stream, subject, want string }{
		"a log":                             {"LOGS_1", "logs.1", "logs.1"},
		"a log of no known subject":         {"LOGS_1", "", "logs.1"},
		"an event that asks":                {"EVENTS_0", "events.0.notify", "events.0.notify"},
		"an event that does not":            {"EVENTS_0", "events.0.quiet", "events.0.quiet"},
		"an event of no known subject":      {"EVENTS_0", "", "events.0.quiet"},
		"an event of another one's subject": {"EVENTS_0", "events.1.notify", "events.0.quiet"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t)
			topology := q.Open(stream.Config{Shards: 2})
			q.commit(topology, test.stream, 7)
			q.bury(topology, stream.DeadLetter{Reason: "poison", Stream: test.stream, Seq: 7, Subject: test.subject, Data: []byte("kept")})
			ack, err := q.replay(q.letters(), 1)
			if err != nil || ack.Stream != test.stream || ack.Seq != 1 || ack.Duplicate {
				t.Fatalf("got %+v, %v", ack, err)
			}
			stored := q.all(topology, test.stream)
			if len(stored) != 1 || string(stored[0].Data) != "kept" || stored[0].Subject != test.want {
				t.Errorf("stored is %+v, want one message on %s", stored, test.want)
			}
			if _, err := q.replay(q.letters(), 1); !errors.Is(err, stream.ErrNoLetter) {
				t.Errorf("the second replay got %v, want ErrNoLetter", err)
			}
		})
	}
}

func TestReplayOfOneMessageByManyStoresItOnce(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.Open(stream.Config{Shards: 1})
	q.commit(topology, "LOGS_0", 7)
	for _, reason := range []string{"undecodable", "poison"} { // two letters of one message
		q.bury(topology, stream.DeadLetter{Reason: reason, Stream: "LOGS_0", Seq: 7, Data: []byte("once")})
	}
	var running sync.WaitGroup
	for range 8 {
		for _, id := range []uint64{1, 2} {
			running.Go(func() {
				if _, err := q.replay(q.letters(), id); err != nil && !errors.Is(err, stream.ErrNoLetter) {
					t.Error(err)
				}
			})
		}
	}
	running.Wait()
	if n := q.messages(topology, "LOGS_0"); n != 1 {
		t.Errorf("%d messages are stored, want 1", n)
	}
	if n := q.messages(topology, stream.DeadStream); n != 0 {
		t.Errorf("%d letters are left", n)
	}
}

func TestReplayThatFailsLeavesTheLetter(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		letter stream.DeadLetter
		want   error
	}{
		"never on a stream":            {stream.DeadLetter{Stream: "LOGS_0", Data: []byte("x")}, stream.ErrNeverQueued},
		"of no stream of records":      {stream.DeadLetter{Stream: "KV_LEDGER", Seq: 1, Data: []byte("x")}, stream.ErrNeverQueued},
		"of a stream's other spelling": {stream.DeadLetter{Stream: "LOGS_00", Seq: 1, Data: []byte("x")}, stream.ErrNeverQueued},
		"empty":                        {stream.DeadLetter{Stream: "LOGS_0", Seq: 1}, stream.ErrNeverQueued},
		"not committed yet":            {stream.DeadLetter{Stream: "LOGS_0", Seq: 8, Data: []byte("x")}, stream.ErrNotCommitted},
		"of a stream never written":    {stream.DeadLetter{Stream: "EVENTS_0", Seq: 1, Data: []byte("x")}, stream.ErrNotCommitted},
		"of a full stream":             {stream.DeadLetter{Stream: "LOGS_0", Seq: 7, Data: make([]byte, 2<<20)}, stream.ErrFull},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t)
			topology := q.Open(stream.Config{Shards: 1, MaxBytes: 1 << 20})
			q.commit(topology, "LOGS_0", 7)
			test.letter.Reason = "poison"
			q.bury(topology, test.letter)
			if _, err := q.replay(q.letters(), 1); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if n := q.messages(topology, stream.DeadStream); n != 1 {
				t.Errorf("%d letters are left, want 1", n)
			}
			if n := q.messages(topology, "LOGS_0"); n != 0 {
				t.Errorf("%d messages are stored, want none", n)
			}
		})
	}
}

func TestReplayAfterItsRemovalFailedStoresNothingMore(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.Open(stream.Config{Shards: 1})
	q.commit(topology, "LOGS_0", 7)
	letter := stream.DeadLetter{Reason: "poison", Stream: "LOGS_0", Seq: 7, Data: []byte("once")}
	q.bury(topology, letter)
	q.denyDelete()
	_, err := q.replay(q.letters(), 1)
	if !errors.Is(err, stream.ErrNotRemoved) || !errors.Is(err, stream.ErrUnavailable) || q.messages(topology, stream.DeadStream) != 1 {
		t.Fatalf("got %v, want ErrNotRemoved, ErrUnavailable and the letter where it was", err)
	}
	q.bury(topology, stream.DeadLetter{Reason: "undecodable", Stream: "LOGS_0", Seq: 7, Data: []byte("once")})
	ack, err := q.replay(q.letters(), 2)
	if !errors.Is(err, stream.ErrNotRemoved) || q.messages(topology, "LOGS_0") != 1 {
		t.Errorf("got %+v, %v, and %d messages are stored; want 1", ack, err, q.messages(topology, "LOGS_0"))
	}
}

// denyDelete makes the server refuse to remove a letter.
func (q *queue) denyDelete() {
	q.TB.Helper()
	s, err := q.JS.Stream(q.Ctx(), stream.DeadStream)
	if err != nil {
		q.TB.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	cfg.DenyDelete = true
	if _, err := q.JS.UpdateStream(q.Ctx(), cfg); err != nil {
		q.TB.Fatal(err)
	}
}
