package engines

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/stream"
)

// The drill of docs/operations.md for a queue that is lost with its ledger: the
// new streams begin after what is stored, and so does the writer.
func TestANewQueueBeginsAfterWhatIsStored(t *testing.T) {
	t.Parallel()
	const place = 41_000
	ctx := t.Context()
	address := queue(t)
	connect := func(user string) (*stream.Topology, jetstream.JetStream) {
		nc, js, err := stream.Connect(ctx, fmt.Sprintf("nats://%s:%s@%s", user, secret, address), stream.ConnectConfig{Name: "test"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		topology, err := stream.Open(ctx, js, stream.Config{Shards: 1, MaxBytes: 16 << 20, DeadMaxBytes: 16 << 20})
		if err != nil {
			t.Fatalf("%s: %v", user, err)
		}
		return topology, js
	}
	_, js := connect("admin")
	logs, err := js.Stream(ctx, "LOGS_0")
	if err != nil {
		t.Fatal(err)
	}
	if err := logs.Purge(ctx, jetstream.WithPurgeSequence(place+1)); err != nil {
		t.Fatal(err)
	}
	ledger, err := js.KeyValue(ctx, "LEDGER")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ledger.Put(ctx, stream.WriterKey("LOGS_0"), fmt.Appendf(nil, `{"epoch":1,"committed":%d,"owner":"operator"}`, place)); err != nil {
		t.Fatal(err)
	}

	intake, _ := connect("ingest")
	ack := publish(t, intake)
	if ack.Seq != place+1 {
		t.Errorf("the first message has place %d, want %d", ack.Seq, place+1)
	}
	writing, _ := connect("writer")
	position, err := writing.Ledger().TakeOver(ctx, stream.WriterKey("LOGS_0"))
	if err != nil || position.Committed != place {
		t.Errorf("the writer begins after %d (%v), want %d", position.Committed, err, place)
	}
}

// publish puts one log on the queue as ingest does.
func publish(t *testing.T, topology *stream.Topology) stream.Ack {
	t.Helper()
	publisher, err := stream.NewPublisher(topology, stream.PublisherConfig{})
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1) // one: Run returns once
	go func() { ended <- publisher.Run(running) }()
	defer func() {
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ack, err := publisher.Publish(ctx, stream.Message{Kind: stream.Logs, Project: "shop", Parts: [][]byte{[]byte("a record")}, Records: 1})
	if err != nil {
		t.Fatal(err)
	}
	return ack
}
