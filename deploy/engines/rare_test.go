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

// client is a connection to the queue as a process has it, with its own user.
type client struct {
	js       jetstream.JetStream
	topology *stream.Topology
}

func connectAs(t *testing.T, address, user string) client {
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
	return client{js, topology}
}

// The processes send some requests only after a fault. The other tests do not
// reach these.
func TestUsersHaveTheRightsForRareRequests(t *testing.T) {
	t.Parallel()
	log := &refusals{}
	defer log.check(t)
	address := queueWithLog(t, log)
	admin := connectAs(t, address, "admin")
	createOutbox := func() error { _, err := outbox.Open(t.Context(), admin.js, outbox.Config{Partitions: 4}); return err }
	createLedger := func() error { _, err := ledger.Open(t.Context(), admin.js, 1, nil); return err }
	if err := runSteps(createLedger, createOutbox); err != nil { // as migrate does
		t.Fatal(err)
	}
	ingest, writer, notifier := connectAs(t, address, "ingest"), connectAs(t, address, "writer"), connectAs(t, address, "notifier")
	stored := publish(t, ingest.topology)
	ctx := t.Context()
	for name, steps := range map[string][]func() error{
		"dead-letter an entry":  {func() error { return ingest.topology.PublishDeadLetter(ctx, letter("ingest", 0)) }},
		"dead-letter a message": {func() error { return writer.topology.PublishDeadLetter(ctx, letter(stored.Stream, stored.Seq)) }},
		"dead-letter an alert":  {func() error { return notifier.topology.PublishDeadLetter(ctx, letter(outbox.Stream, 7)) }},
		"use a lease":           useLease(ctx, writer.js),
		"use the ledger":        useLedger(ctx, writer.js, writer.topology, stored),
		"use the outbox":        useOutbox(ctx, notifier.js),
	} {
		if err := runSteps(steps...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	var page stream.LetterPage
	list := func() (err error) {
		page, err = stream.NewLetters(admin.js, ledger.Committed(admin.js)).List(ctx, 0, 10)
		return err
	}
	if err := runSteps(list); err != nil || len(page.Letters) < 3 {
		t.Errorf("listed dead letters %+v, error %v, want at least 3", page, err)
	}
}

// runSteps runs the steps in order. It retries a step that timed out: the
// processes' timeouts are a few seconds, and a busy machine sometimes exceeds
// them. The queue does not answer a request that it refuses, so a refused step
// fails after a minute of retries.
func runSteps(steps ...func() error) error {
	for _, step := range steps {
		err := step()
		for deadline := time.Now().Add(time.Minute); timedOut(err) && time.Now().Before(deadline); {
			err = step()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func timedOut(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, stream.ErrUnavailable)
}

func letter(from string, seq uint64) stream.DeadLetter {
	return stream.DeadLetter{Reason: "test", Stream: from, Seq: seq, Time: time.Now(), Data: []byte("x")}
}

// useLease joins as a member, acquires a lease, releases it and leaves.
func useLease(ctx context.Context, js jetstream.JetStream) []func() error {
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

// useLedger commits a stored message, reads the message again and purges it.
func useLedger(ctx context.Context, js jetstream.JetStream, topology *stream.Topology, stored stream.Ack) []func() error {
	reader := ledger.WriterKey(stored.Stream)
	var l *ledger.Ledger
	var positions map[string]ledger.Position
	return []func() error{
		func() (err error) { l, err = ledger.Open(ctx, js, 1, nil); return err },
		func() error {
			position, err := l.TakeOver(ctx, reader)
			if err != nil {
				return err
			}
			_, err = l.Commit(ctx, reader, position, stored.Seq, time.Time{})
			return err
		},
		func() error { _, err := topology.First(ctx, stored.Stream, stored.Seq); return err },
		func() error { _, err := topology.ReadRange(ctx, stored.Stream, stored.Seq, stored.Seq); return err },
		func() error { return l.RecordAudit(ctx, ledger.Audit{}) },
		func() (err error) { positions, err = l.Positions(ctx); return err },
		func() error { _, err := topology.Purge(ctx, stored.Stream, positions[reader].Committed+1); return err },
		func() error {
			info, err := topology.Info(ctx, stored.Stream)
			if err == nil && info.Messages > 0 {
				err = fmt.Errorf("%d messages remain after the purge", info.Messages)
			}
			return err
		},
	}
}

// useOutbox publishes an alert and its rows, reads the alert, and removes both.
func useOutbox(ctx context.Context, js jetstream.JetStream) []func() error {
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
