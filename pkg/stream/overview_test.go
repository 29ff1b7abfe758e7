package stream_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

func (q *queue) states(over *stream.Overview) ([]stream.ShardState, error) {
	ctx := q.ctx()
	return answered(ctx, func() ([]stream.ShardState, error) { return over.Shards(ctx) })
}

func TestOverviewShowsWhatWaitsInEachShard(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	over := stream.NewOverview(q.js)
	if shards, err := q.states(over); err != nil || len(shards) != 0 {
		t.Fatalf("before there is a queue: %v, %v", shards, err)
	}
	topology := q.open(stream.Config{Shards: 2, MaxBytes: 8 << 20})
	publisher := q.publisher(topology, stream.PublisherConfig{})
	for range 3 {
		if _, err := publisher.Publish(q.ctx(), stream.Message{Kind: record.KindEvent, Project: "shop", Parts: [][]byte{[]byte("x")}, Records: 1, ID: time.Now().String()}); err != nil {
			t.Fatal(err)
		}
	}
	shards, err := q.states(over)
	if err != nil || len(shards) != 4 {
		t.Fatalf("%d shards, %v", len(shards), err)
	}
	busy := ""
	for _, s := range shards {
		if s.Waiting == 3 && !s.Oldest.IsZero() && s.MaxBytes == 8<<20 {
			busy = s.Stream
		}
	}
	if busy == "" {
		t.Fatalf("no shard has three messages: %+v", shards)
	}
	q.commit(topology, busy, 2)
	shards, err = q.states(over)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range shards {
		if s.Stream == busy && (s.Waiting != 1 || s.Committed != 2) {
			t.Errorf("after a commit: %+v", s)
		}
	}
}

func TestProcessesAreThereUntilTheyLeave(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	over := stream.NewOverview(q.js)
	ready := func(context.Context) error { return errors.New("clickhouse: away") }
	ctx, stop := context.WithCancel(q.ctx())
	ended := make(chan error, 1) // one: Run returns once
	p := stream.NewPresence(q.js, stream.Member{Name: "writer", Version: "1.2.3"}, ready, 1, slog.New(slog.DiscardHandler))
	go func() { ended <- p.Run(ctx) }()
	members := q.members(over, 1)
	if m := members[0]; m.Name != "writer" || m.Version != "1.2.3" || m.Unready != "clickhouse: away" || m.Started.IsZero() || m.Seen.IsZero() {
		t.Errorf("the process is %+v", m)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
	q.members(over, 0)
}

// members waits until so many processes are there.
func (q *queue) members(over *stream.Overview, n int) []stream.Member {
	q.tb.Helper()
	deadline := time.Now().Add(patience)
	for {
		members, err := over.Members(q.ctx())
		if err == nil && len(members) == n {
			return members
		}
		if time.Now().After(deadline) {
			q.tb.Fatalf("%d processes are there, not %d: %v", len(members), n, err)
		}
	}
}
