package engines

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/lease"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/outbox"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/stream/streamtest"
)

// desk is what a process has of the queue, under its own user.
type desk struct {
	js       jetstream.JetStream
	topology *stream.Topology
}

func sit(t *testing.T, address, user string) desk {
	t.Helper()
	nc, js, err := stream.Connect(t.Context(), fmt.Sprintf("nats://%s:%s@%s", user, secret, address), streamtest.Calm(user))
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
	lay := func() error { _, err := outbox.Open(t.Context(), admin.js, outbox.Config{Partitions: 4}); return err }
	if err := inTurn(lay); err != nil {
		t.Fatal(err)
	}
	ingest, writer, notifier := sit(t, address, "ingest"), sit(t, address, "writer"), sit(t, address, "notifier")
	stored := publish(t, ingest.topology)
	ctx := t.Context()
	for name, seldom := range map[string][]func() error{
		"bury an entry":    {func() error { return ingest.topology.PublishDeadLetter(ctx, letter("ingest", 0)) }},
		"bury a message":   {func() error { return writer.topology.PublishDeadLetter(ctx, letter(stored.Stream, stored.Seq)) }},
		"bury an alert":    {func() error { return notifier.topology.PublishDeadLetter(ctx, letter(outbox.Stream, 7)) }},
		"share the work":   shareWork(ctx, writer.js),
		"keep the ledger":  keepLedger(ctx, writer.js, writer.topology, stored),
		"deliver an alert": deliver(ctx, notifier.js),
	} {
		if err := inTurn(seldom...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	var page stream.LetterPage
	list := func() (err error) {
		page, err = stream.NewLetters(admin.js, ledger.Committed(admin.js)).List(ctx, 0, 10)
		return err
	}
	if err := inTurn(list); err != nil || len(page.Letters) < 3 {
		t.Errorf("dead letters %+v, %v", page, err)
	}
}

// inTurn takes one step after another. One to which the queue did not answer
// within the processes' own bounds, which are of seconds, is taken again: a busy
// machine passes them now and then. What a queue refuses it does not answer
// either, and so fails in the end.
func inTurn(steps ...func() error) error {
	for _, step := range steps {
		err := step()
		for deadline := time.Now().Add(time.Minute); late(err) && time.Now().Before(deadline); {
			err = step()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func late(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, stream.ErrUnavailable)
}

func letter(from string, seq uint64) stream.DeadLetter {
	return stream.DeadLetter{Reason: "of_a_test", Stream: from, Seq: seq, Time: time.Now(), Data: []byte("x")}
}

// shareWork takes a lease, gives it back and leaves.
func shareWork(ctx context.Context, js jetstream.JetStream) []func() error {
	var leases *lease.Member
	return []func() error{
		func() error {
			positions, err := ledger.Open(ctx, js, 1, nil)
			if err == nil {
				keys := lease.Keys{Member: "l.member.", Claim: "l.claim."}
				leases, err = lease.NewMember(positions.Bucket(), keys, "one", slog.New(slog.DiscardHandler))
			}
			return err
		},
		func() error { _, err := leases.Beat(ctx); return err },
		func() error { _, err := leases.Claim(ctx, "LOGS_0"); return err },
		func() error { return leases.Release(ctx, "LOGS_0") },
		func() error { return leases.Leave(ctx) },
	}
}

// keepLedger commits what is stored, looks at it again and purges it.
func keepLedger(ctx context.Context, js jetstream.JetStream, topology *stream.Topology, stored stream.Ack) []func() error {
	reader := ledger.WriterKey(stored.Stream)
	var book *ledger.Ledger
	var positions map[string]ledger.Position
	return []func() error{
		func() (err error) { book, err = ledger.Open(ctx, js, 1, nil); return err },
		func() error {
			position, err := book.TakeOver(ctx, reader)
			if err != nil {
				return err
			}
			_, err = book.Commit(ctx, reader, position, stored.Seq, time.Time{})
			return err
		},
		func() error { _, err := topology.First(ctx, stored.Stream, stored.Seq); return err },
		func() error { _, err := topology.ReadRange(ctx, stored.Stream, stored.Seq, stored.Seq); return err },
		func() error { return book.RecordAudit(ctx, ledger.Audit{}) },
		func() (err error) { positions, err = book.Positions(ctx); return err },
		func() error { _, err := topology.Purge(ctx, stored.Stream, positions[reader].Committed+1); return err },
		func() error {
			info, err := topology.Info(ctx, stored.Stream)
			if err == nil && info.Messages > 0 {
				err = fmt.Errorf("%d messages were not purged", info.Messages)
			}
			return err
		},
	}
}

// deliver puts an alert in, reads it again, and takes it and its rows out.
func deliver(ctx context.Context, js jetstream.JetStream) []func() error {
	var box *outbox.Outbox
	return []func() error{
		func() (err error) { box, err = outbox.Open(ctx, js, outbox.Config{Partitions: 4}); return err },
		func() error { return box.Publish(ctx, outbox.Entry{ID: "one", Project: "shop"}) },
		func() error { _, err := box.Load(ctx, 1); return err },
		func() error { return box.Remove(ctx, box.Subject("shop"), 1) },
		func() error { return box.PublishRows(ctx, 0, []byte("[]")) },
		func() error { return box.RemoveRows(ctx, 0, 1) },
	}
}
