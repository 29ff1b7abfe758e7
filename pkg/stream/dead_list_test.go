package stream_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/stream/streamtest"
)

func (q *queue) bury(topology *stream.Topology, letter stream.DeadLetter) {
	q.TB.Helper()
	if err := q.buried(topology, letter); err != nil {
		q.TB.Fatal(err)
	}
}

// buried is Bury, which keeps a message that has a place once.
func (q *queue) buried(topology *stream.Topology, letter stream.DeadLetter) error {
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
		q.bury(topology, stream.DeadLetter{
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

func TestListOfLettersIsEmptyBeforeAQueueIsMade(t *testing.T) {
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
			t.Errorf("a page of %d was taken", limit)
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
				q.bury(topology, stream.DeadLetter{Reason: "poison", Stream: "LOGS_0", Seq: seq + 1, Data: make([]byte, size)})
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
