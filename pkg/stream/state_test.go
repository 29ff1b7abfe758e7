package stream_test

import (
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/stream/streamtest"
)

func (q *queue) first(topology *stream.Topology, from uint64) (stream.Place, error) {
	ctx := q.Ctx()
	return streamtest.Answered(ctx, func() (stream.Place, error) { return topology.First(ctx, "LOGS_0", from) })
}

func TestFirstReturnsTheMessageAtOrAfterASequence(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.Open(stream.Config{Shards: 1})
	if mark, err := q.first(topology, 1); err != nil || mark.Seq != 0 {
		t.Errorf("of an empty stream: %+v, %v", mark, err)
	}
	q.fill(q.publisher(topology, stream.PublisherConfig{}), 5)
	s, err := q.JS.Stream(q.Ctx(), "LOGS_0")
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range q.all(topology, "LOGS_0") {
		mark, err := q.first(topology, message.Seq)
		if err != nil || mark.Seq != message.Seq || !mark.Time.Equal(message.Time) {
			t.Errorf("message %d at %s: %+v, %v", message.Seq, message.Time, mark, err)
		}
	}
	if err := s.Purge(q.Ctx()); err != nil {
		t.Fatal(err)
	}
	if mark, err := q.first(topology, 3); err != nil || mark.Seq != 0 {
		t.Errorf("of a purged stream: %+v, %v", mark, err)
	}
}

func (q *queue) purge(topology *stream.Topology, name string, below uint64) (uint64, error) {
	ctx := q.Ctx()
	return streamtest.Answered(ctx, func() (uint64, error) { return topology.Purge(ctx, name, below) })
}

func TestPurgeKeepsTheUnreadAndTheReplayWindow(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		age    time.Duration
		bytes  int64
		below  uint64
		first  uint64 // what the stream begins with afterwards
		purged uint64
	}{
		"old ones go up to the unread":          {age: time.Nanosecond, below: 6, first: 6, purged: 5},
		"old ones go all":                       {age: time.Nanosecond, below: 11, first: 11, purged: 10},
		"never beyond the end":                  {age: time.Nanosecond, below: 99, first: 11, purged: 10},
		"young ones within the bytes stay":      {age: time.Hour, bytes: 1 << 20, below: 11, first: 1},
		"young ones beyond the bytes go":        {age: time.Hour, bytes: 3100, below: 11, first: 8, purged: 7},
		"beyond the bytes, but never an unread": {age: time.Hour, bytes: 1, below: 4, first: 4, purged: 3},
		"nothing is read":                       {age: time.Nanosecond, below: 1, first: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t)
			topology := q.Open(stream.Config{Shards: 1, ReplayAge: test.age, ReplayBytes: test.bytes})
			p := q.publisher(topology, stream.PublisherConfig{})
			for range 10 {
				m := stream.Message{Kind: record.KindLog, Project: "shop", Parts: [][]byte{make([]byte, 990)}}
				if _, err := p.Publish(q.Ctx(), m); err != nil {
					t.Fatal(err)
				}
			}
			purged, err := q.purge(topology, "LOGS_0", test.below)
			if err != nil || purged != test.purged {
				t.Errorf("purged %d, %v; want %d", purged, err, test.purged)
			}
			if info, err := q.info(topology, "LOGS_0"); err != nil || info.FirstSeq != test.first || info.LastSeq != 10 {
				t.Errorf("holds %d to %d, %v; want %d to 10", info.FirstSeq, info.LastSeq, err, test.first)
			}
		})
	}
}

func TestPurgeFindsTheAgeInTheMiddle(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.Open(stream.Config{Shards: 1})
	p := q.publisher(topology, stream.PublisherConfig{})
	q.fill(p, 5)
	between := time.Now()
	q.fill(p, 5)
	windowed := q.Open(stream.Config{ReplayAge: time.Since(between)})
	// The window moves while the test reads it, so a little more may be removed.
	purged, err := q.purge(windowed, "LOGS_0", 11)
	if err != nil || purged < 5 {
		t.Errorf("purged %d, %v; want 5 or more", purged, err)
	}
	_, err = q.purge(topology, "LOGS_0", 11)
	if err != nil {
		t.Error(err)
	}
}
