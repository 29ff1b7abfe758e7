package stream_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/stream/streamtest"
)

func TestDeadLetterIsStoredOnceWithItsReason(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.Open(stream.Config{Shards: 1})
	letter := stream.DeadLetter{
		Reason: "undecodable",
		Stream: "LOGS_0",
		Seq:    42,
		Time:   time.Date(2026, 11, 21, 10, 0, 0, 7, time.UTC),
		Data:   bytes.Repeat([]byte("x"), 8<<20-16<<10), // the largest that Publish takes
		Detail: "bad\r\nNats-Rollup: all\x00" + strings.Repeat("y", 5000),
	}
	for range 2 {
		q.deadLetter(topology, letter)
	}
	s, err := q.JS.Stream(q.Ctx(), stream.DeadStream)
	if err != nil {
		t.Fatal(err)
	}
	if n := s.CachedInfo().State.Msgs; n != 1 {
		t.Errorf("%d letters, want 1", n)
	}
	m, err := s.GetMsg(q.Ctx(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if m.Subject != "dead.LOGS_0.undecodable.42" || !bytes.Equal(m.Data, letter.Data) ||
		m.Header.Get(stream.HeaderReason) != "undecodable" || m.Header.Get(stream.HeaderStream) != "LOGS_0" ||
		m.Header.Get(stream.HeaderSeq) != "42" || m.Header.Get(stream.HeaderTime) != "2026-11-21T10:00:00.000000007Z" ||
		!strings.HasPrefix(m.Header.Get(stream.HeaderDetail), "bad  Nats-Rollup: all yyy") || m.Header.Get("Nats-Rollup") != "" {
		t.Errorf("the letter is %s %v", m.Subject, m.Header)
	}
}

func TestDeadLetterRefusesAnInvalidReason(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.Open(stream.Config{Shards: 1})
	for _, reason := range []string{"", "two words", "dead.>", strings.Repeat("x", 65)} {
		if err := topology.PublishDeadLetter(q.Ctx(), stream.DeadLetter{Reason: reason, Stream: "LOGS_0"}); err == nil {
			t.Errorf("reason %q was accepted", reason)
		}
	}
}

func TestDeadLetterFailsWhenTheStreamIsFull(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.Open(stream.Config{Shards: 1, DeadMaxBytes: 1 << 20})
	letter := stream.DeadLetter{Reason: "poison", Stream: "LOGS_0", Data: make([]byte, 400<<10)}
	for range 2 {
		letter.Seq++
		q.deadLetter(topology, letter)
	}
	letter.Seq++
	if err := q.tryDeadLetter(topology, letter); !errors.Is(err, stream.ErrFull) {
		t.Errorf("got %v, want ErrFull", err)
	}
}

func (q *queue) deadLetter(topology *stream.Topology, letter stream.DeadLetter) {
	q.TB.Helper()
	if err := q.tryDeadLetter(topology, letter); err != nil {
		q.TB.Fatal(err)
	}
}

// tryDeadLetter publishes a letter, and again where the queue did not answer in time.
func (q *queue) tryDeadLetter(topology *stream.Topology, letter stream.DeadLetter) error {
	ctx := q.Ctx()
	return streamtest.Done(ctx, func() error { return topology.PublishDeadLetter(ctx, letter) })
}

func (q *queue) list(letters *stream.Letters, after uint64, limit int) (stream.LetterPage, error) {
	ctx := q.Ctx()
	return streamtest.Answered(ctx, func() (stream.LetterPage, error) { return letters.List(ctx, after, limit) })
}

func (q *queue) replay(letters *stream.Letters, id uint64) (stream.Ack, error) {
	ctx := q.Ctx()
	return streamtest.Answered(ctx, func() (stream.Ack, error) { return letters.Replay(ctx, id) })
}

func TestLettersAreListedByPageWithoutTheirData(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.Open(stream.Config{Shards: 1})
	at := time.Date(2026, 11, 21, 10, 0, 0, 7, time.UTC)
	for i := range 5 {
		q.deadLetter(topology, stream.DeadLetter{
			Reason: "poison", Stream: "LOGS_0", Seq: uint64(i + 1), Time: at, Data: make([]byte, 1000+i), Detail: fmt.Sprint("row ", i),
		})
	}
	var seen []stream.Letter
	for after := uint64(0); ; {
		page, err := q.list(q.letters(), after, 2)
		if err != nil || len(page.Letters) > 2 {
			t.Fatalf("a page of %d, %v", len(page.Letters), err)
		}
		seen = append(seen, page.Letters...)
		if after = page.Next; after == 0 {
			break
		}
	}
	if len(seen) != 5 {
		t.Fatalf("%d letters are listed, want 5", len(seen))
	}
	for i, l := range seen {
		if l.ID != uint64(i+1) || l.Seq != uint64(i+1) || l.Bytes != 1000+i || l.Data != nil || l.Reason != "poison" ||
			l.Stream != "LOGS_0" || !l.Time.Equal(at) || l.Detail != fmt.Sprint("row ", i) {
			t.Errorf("letter %d is %+v", i, l)
		}
	}
	ctx := q.Ctx()
	one, err := streamtest.Answered(ctx, func() (stream.Letter, error) { return q.letters().Letter(ctx, 3) })
	if err != nil || one.ID != 3 || len(one.Data) != 1002 || one.Bytes != 1002 {
		t.Errorf("letter 3 is %+v, %v", one, err)
	}
	q.WaitFor("the consumers to go", func() bool {
		left, err := q.JS.Stream(q.Ctx(), stream.DeadStream)
		return err == nil && left.CachedInfo().State.Consumers == 0
	})
}

func TestListOfLettersIsEmptyWithoutAQueue(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	letters := stream.NewLetters(q.JS, ledger.Committed(q.JS))
	if page, err := q.list(letters, 0, 10); err != nil || len(page.Letters) != 0 || page.Next != 0 {
		t.Errorf("got %+v, %v", page, err)
	}
	if _, err := q.replay(letters, 1); !errors.Is(err, stream.ErrNoLetter) {
		t.Errorf("got %v, want ErrNoLetter", err)
	}
}

func TestListOfLettersBoundsItsPage(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	q.Open(stream.Config{Shards: 1})
	letters := q.letters()
	for _, limit := range []int{-1, 0, stream.MaxLetterPage + 1} {
		if _, err := q.list(letters, 0, limit); err == nil {
			t.Errorf("a page of %d was accepted", limit)
		}
	}
	if page, err := q.list(letters, 1<<60, 1); err != nil || len(page.Letters) != 0 {
		t.Errorf("after the end: %+v, %v", page, err)
	}
}

func TestLettersOfALostQueueAreUnavailable(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	q.Open(stream.Config{Shards: 1})
	letters := q.letters()
	q.NC.Close()
	if _, err := q.list(letters, 0, 1); !errors.Is(err, stream.ErrUnavailable) {
		t.Errorf("list: got %v, want ErrUnavailable", err)
	}
	if _, err := q.replay(letters, 1); !errors.Is(err, stream.ErrUnavailable) {
		t.Errorf("replay: got %v, want ErrUnavailable", err)
	}
}

func TestLetterThatSomethingElseWroteIsShown(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	q.Open(stream.Config{Shards: 1})
	letters := q.letters()
	before := time.Now().Add(-time.Second)
	m := &nats.Msg{Subject: "dead.strange", Data: []byte("?"), Header: nats.Header{stream.HeaderSeq: {"-1"}, stream.HeaderReason: {"a\tb"}}}
	if _, err := q.JS.PublishMsg(q.Ctx(), m); err != nil {
		t.Fatal(err)
	}
	page, err := q.list(letters, 0, 10)
	if err != nil || len(page.Letters) != 1 {
		t.Fatalf("got %+v, %v", page, err)
	}
	if l := page.Letters[0]; l.Seq != 0 || l.Reason != "a b" || l.Time.Before(before) {
		t.Errorf("the letter is %+v", l)
	}
	if _, err := q.replay(letters, 1); !errors.Is(err, stream.ErrNeverQueued) {
		t.Errorf("got %v, want ErrNeverQueued", err)
	}
}

func BenchmarkListLetters(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("letters=500/bytes=%d", size), func(b *testing.B) {
			q := newQueue(b)
			topology := q.Open(stream.Config{Shards: 1})
			for seq := range uint64(500) {
				q.deadLetter(topology, stream.DeadLetter{Reason: "poison", Stream: "LOGS_0", Seq: seq + 1, Data: make([]byte, size)})
			}
			b.ReportAllocs()
			for b.Loop() {
				if page, err := q.letters().List(q.Ctx(), 0, 500); err != nil || len(page.Letters) != 500 {
					b.Fatal(len(page.Letters), err)
				}
			}
		})
	}
}

// commit makes the writer of a stream commit everything up to a sequence.
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
	info, err := q.info(topology, name)
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
			q.deadLetter(topology, stream.DeadLetter{Reason: "poison", Stream: test.stream, Seq: 7, Subject: test.subject, Data: []byte("kept")})
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
		q.deadLetter(topology, stream.DeadLetter{Reason: reason, Stream: "LOGS_0", Seq: 7, Data: []byte("once")})
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

func TestFailedReplayKeepsTheLetter(t *testing.T) {
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
			q.deadLetter(topology, test.letter)
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
	q.deadLetter(topology, letter)
	q.denyDelete()
	_, err := q.replay(q.letters(), 1)
	if !errors.Is(err, stream.ErrNotRemoved) || !errors.Is(err, stream.ErrUnavailable) || q.messages(topology, stream.DeadStream) != 1 {
		t.Fatalf("got %v, want ErrNotRemoved, ErrUnavailable and the letter where it was", err)
	}
	q.deadLetter(topology, stream.DeadLetter{Reason: "undecodable", Stream: "LOGS_0", Seq: 7, Data: []byte("once")})
	ack, err := q.replay(q.letters(), 2)
	if !errors.Is(err, stream.ErrNotRemoved) || q.messages(topology, "LOGS_0") != 1 {
		t.Errorf("got %+v, %v, and %d messages are stored; want 1", ack, err, q.messages(topology, "LOGS_0"))
	}
}

// denyDelete makes the server refuse to delete a letter.
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
