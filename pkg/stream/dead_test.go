package stream_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/stream"
)

func TestBuryKeepsTheMessageWithItsReasonOnce(t *testing.T) {
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
		q.bury(topology, letter)
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

func TestBuryRefusesReasonsThatAreNoWords(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.Open(stream.Config{Shards: 1})
	for _, reason := range []string{"", "two words", "dead.>", strings.Repeat("x", 65)} {
		if err := topology.PublishDeadLetter(q.Ctx(), stream.DeadLetter{Reason: reason, Stream: "LOGS_0"}); err == nil {
			t.Errorf("reason %q was accepted", reason)
		}
	}
}

func TestBuryTellsThatThereIsNoRoom(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.Open(stream.Config{Shards: 1, DeadMaxBytes: 1 << 20})
	letter := stream.DeadLetter{Reason: "poison", Stream: "LOGS_0", Data: make([]byte, 400<<10)}
	for range 2 {
		letter.Seq++
		q.bury(topology, letter)
	}
	letter.Seq++
	if err := q.buried(topology, letter); !errors.Is(err, stream.ErrFull) {
		t.Errorf("got %v, want ErrFull", err)
	}
}
