package ledger_test

import (
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/stream/streamtest"
)

func (q *queue) states() ([]ledger.ShardState, error) {
	ctx := q.Ctx()
	return streamtest.Answered(ctx, func() ([]ledger.ShardState, error) { return ledger.Shards(ctx, q.JS) })
}

func TestShardsShowHowManyMessagesWait(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	if shards, err := q.states(); err != nil || len(shards) != 0 {
		t.Fatalf("before there is a queue: %v, %v", shards, err)
	}
	topology := q.Open(stream.Config{Shards: 2, MaxBytes: 8 << 20})
	publisher := streamtest.Publisher(t, topology, stream.PublisherConfig{})
	for range 3 {
		if _, err := publisher.Publish(q.Ctx(), stream.Message{Kind: record.KindEvent, Project: "shop", Parts: [][]byte{[]byte("x")}, Records: 1, ID: time.Now().String()}); err != nil {
			t.Fatal(err)
		}
	}
	shards, err := q.states()
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
	q.commit(busy, 2)
	shards, err = q.states()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range shards {
		if s.Stream == busy && (s.Waiting != 1 || s.Committed != 2) {
			t.Errorf("after a commit: %+v", s)
		}
	}
}
