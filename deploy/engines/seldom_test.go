package engines

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/outbox"
	"github.com/logboom/logboom/pkg/stream"
)

// desk is what a process has of the queue, under its own user.
type desk struct {
	js       jetstream.JetStream
	topology *stream.Topology
}

func sit(t *testing.T, address, user string) desk {
	t.Helper()
	nc, js, err := stream.Connect(t.Context(), fmt.Sprintf("nats://%s:%s@%s", user, secret, address), stream.ConnectConfig{Name: user})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	topology, err := stream.Open(t.Context(), js, stream.Config{MaxBytes: 16 << 20, DeadMaxBytes: 16 << 20, ReplayAge: time.Nanosecond, ReplayBytes: 1})
	if err != nil {
		t.Fatalf("%s: %v", user, err)
	}
	return desk{js, topology}
}

// What the processes do only on bad days does not come up in a test of good ones.
func TestUsersMayDoWhatTheirProcessesSeldomDo(t *testing.T) {
	t.Parallel()
	log := &refusals{}
	defer log.check(t)
	address := watched(t, log)
	admin := sit(t, address, "admin")
	if _, err := outbox.Open(t.Context(), admin.js, outbox.Config{Partitions: 4}); err != nil {
		t.Fatal(err)
	}
	ingest, writer, notifier := sit(t, address, "ingest"), sit(t, address, "writer"), sit(t, address, "notifier")
	stored := publish(t, ingest.topology)
	for name, seldom := range map[string]func(context.Context) error{
		"bury an entry":    func(ctx context.Context) error { return ingest.topology.Bury(ctx, letter("ingest", 0)) },
		"bury a message":   func(ctx context.Context) error { return writer.topology.Bury(ctx, letter(stored.Stream, stored.Seq)) },
		"bury an alert":    func(ctx context.Context) error { return notifier.topology.Bury(ctx, letter(outbox.Stream, 7)) },
		"share the work":   func(ctx context.Context) error { return shareWork(ctx, writer.topology) },
		"keep the ledger":  func(ctx context.Context) error { return keepLedger(ctx, writer.topology, stored) },
		"deliver an alert": func(ctx context.Context) error { return deliver(ctx, notifier.js) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if err := seldom(ctx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
	if page, err := stream.NewLetters(admin.js).List(t.Context(), 0, 10); err != nil || len(page.Letters) != 3 {
		t.Errorf("dead letters %+v, %v", page, err)
	}
}

func letter(from string, seq uint64) stream.DeadLetter {
	return stream.DeadLetter{Reason: "of_a_test", Stream: from, Seq: seq, Time: time.Now(), Data: []byte("x")}
}

// shareWork takes a lease, gives it back and leaves.
func shareWork(ctx context.Context, topology *stream.Topology) error {
	leases, err := topology.Leases("one")
	if err != nil {
		return err
	}
	if _, err := leases.Beat(ctx); err != nil {
		return err
	}
	if _, err := leases.Claim(ctx, "LOGS_0"); err != nil {
		return err
	}
	if err := leases.Release(ctx, "LOGS_0"); err != nil {
		return err
	}
	return leases.Leave(ctx)
}

// keepLedger commits what is stored, looks at it again and purges it.
func keepLedger(ctx context.Context, topology *stream.Topology, stored stream.Ack) error {
	ledger, reader := topology.Ledger(), stream.WriterKey(stored.Stream)
	position, err := ledger.TakeOver(ctx, reader)
	if err != nil {
		return err
	}
	if _, err := ledger.Commit(ctx, reader, position, stored.Seq); err != nil {
		return err
	}
	if _, err := topology.First(ctx, stored.Stream, stored.Seq); err != nil {
		return err
	}
	if _, err := topology.Refetch(ctx, stored.Stream, stored.Seq, stored.Seq); err != nil {
		return err
	}
	positions, err := ledger.Positions(ctx)
	if err != nil {
		return err
	}
	if n, err := topology.Purge(ctx, stored.Stream, positions[reader].Committed+1); err != nil || n != 1 {
		return fmt.Errorf("%d messages were purged: %w", n, err)
	}
	return nil
}

// deliver puts an alert in, reads it again, and takes it and its rows out.
func deliver(ctx context.Context, js jetstream.JetStream) error {
	box, err := outbox.Open(ctx, js, outbox.Config{Partitions: 4})
	if err != nil {
		return err
	}
	if err := box.Put(ctx, outbox.Entry{ID: "one", Project: "shop"}); err != nil {
		return err
	}
	if _, err := box.Entry(ctx, 1); err != nil {
		return err
	}
	if err := box.Remove(ctx, box.Subject("shop"), 1); err != nil {
		return err
	}
	if err := box.PutRows(ctx, 0, []byte("[]")); err != nil {
		return err
	}
	return box.RemoveRows(ctx, 0, 1)
}
