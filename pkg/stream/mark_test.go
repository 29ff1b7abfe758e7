package stream_test

import (
	"testing"

	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/stream/streamtest"
)

func (q *queue) first(topology *stream.Topology, from uint64) (stream.Place, error) {
	ctx := q.Ctx()
	return streamtest.Answered(ctx, func() (stream.Place, error) { return topology.First(ctx, "LOGS_0", from) })
}

func TestFirstIsTheMessageAtOrAfterASequence(t *testing.T) {
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
