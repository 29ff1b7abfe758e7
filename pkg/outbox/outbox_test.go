package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/outbox"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/webhook"
)

// patience bounds every wait of these tests; usually none comes near it.
const patience = 3 * time.Minute

// retried calls ask again while it fails for lack of an answer: a call has a
// timeout of five seconds, which is short for a busy machine.
func retried[T any](t *testing.T, ask func(context.Context) (T, error)) (T, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		answer, err := ask(ctx)
		late := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, outbox.ErrUnavailable) || errors.Is(err, stream.ErrUnavailable)
		if !late || ctx.Err() != nil {
			return answer, err
		}
	}
}

func publish(t *testing.T, box *outbox.Outbox, e outbox.Entry) error {
	t.Helper()
	_, err := retried(t, func(ctx context.Context) (any, error) { return nil, box.Publish(ctx, e) })
	return err
}

func storeDeadLetter(t *testing.T, topology *stream.Topology, letter stream.DeadLetter) {
	t.Helper()
	if _, err := retried(t, func(ctx context.Context) (any, error) { return nil, topology.PublishDeadLetter(ctx, letter) }); err != nil {
		t.Fatal(err)
	}
}

// replay replays a letter with one of the two implementations.
func replay(t *testing.T, way func(context.Context, uint64) (stream.Ack, error), id uint64) error {
	t.Helper()
	_, err := retried(t, func(ctx context.Context) (stream.Ack, error) { return way(ctx, id) })
	return err
}

func open(t *testing.T) (*outbox.Outbox, jetstream.JetStream, *stream.Topology) {
	t.Helper()
	server, err := embedded.StartNATS(t.Context(), embedded.NATSConfig{DataDir: t.TempDir(), MaxStore: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop(context.Background()) })
	nc, js, err := stream.Connect(t.Context(), server.URL(), stream.ConnectConfig{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	topology, err := stream.Open(t.Context(), js, stream.Config{Shards: 1, MaxBytes: 8 << 20, DeadMaxBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	box, err := retried(t, func(ctx context.Context) (*outbox.Outbox, error) {
		return outbox.Open(ctx, js, outbox.Config{Partitions: 4})
	})
	if err != nil {
		t.Fatal(err)
	}
	return box, js, topology
}

func waiting(t *testing.T, js jetstream.JetStream, subject string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := js.Stream(ctx, outbox.Stream)
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(subject))
	if err != nil {
		t.Fatal(err)
	}
	return int(info.State.Subjects[subject])
}

func entry(project string, i int) outbox.Entry {
	return outbox.Entry{ID: fmt.Sprintf("0-%d-0", i), Project: project, Since: time.Now(), Message: webhook.Message{Title: "t"}}
}

func TestAnAlertPublishedTwiceWaitsOnceAndIsRemovedBySubject(t *testing.T) {
	t.Parallel()
	box, js, _ := open(t)
	for _, project := range []string{"my.shop~1", "other~2"} {
		for i := range 3 {
			for range 2 {
				if err := publish(t, box, entry(project, i)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	subject := box.Subject("my.shop~1")
	if n := waiting(t, js, subject); n != 3 {
		t.Errorf("%d wait, want 3", n)
	}
	second := func(ctx context.Context) (outbox.Entry, error) { return box.Load(ctx, 2) }
	if e, err := retried(t, second); err != nil || e.ID != "0-1-0" || e.Message.Title != "t" {
		t.Errorf("the second is %+v: %v", e, err)
	}
	if _, err := retried(t, func(ctx context.Context) (any, error) { return nil, box.Remove(ctx, subject, 2) }); err != nil {
		t.Fatal(err)
	}
	if mine, others := waiting(t, js, subject), waiting(t, js, box.Subject("other~2")); mine != 1 || others != 3 {
		t.Errorf("after the removal of two, %d and %d wait", mine, others)
	}
}

func TestAFullDestinationRefusesOnlyItsOwnAlerts(t *testing.T) {
	t.Parallel()
	box, js, _ := open(t)
	const many = 3
	lower(t, js, many)
	for i := range many {
		if err := publish(t, box, entry("flood~1", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := publish(t, box, entry("flood~1", many)); !errors.Is(err, outbox.ErrFull) {
		t.Errorf("one over the bound: %v", err)
	}
	if err := publish(t, box, entry("other~2", 1)); err != nil {
		t.Errorf("another destination: %v", err)
	}
}

// lower lowers the number of alerts that may wait for one destination, because
// each publish syncs the disk.
func lower(t *testing.T, js jetstream.JetStream, many int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := js.Stream(ctx, outbox.Stream)
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	if cfg.MaxMsgsPerSubject != 10_000 {
		t.Errorf("%d may wait for one destination, want 10,000", cfg.MaxMsgsPerSubject)
	}
	cfg.MaxMsgsPerSubject = many
	if _, err := js.UpdateStream(ctx, cfg); err != nil {
		t.Fatal(err)
	}
}

func TestReplayPublishesAlertsAgainAndNoOtherLetter(t *testing.T) {
	t.Parallel()
	box, js, topology := open(t)
	letters := outbox.NewLetters(js, ledger.Committed(js))
	subject := box.Subject("shop~1")
	data := []byte(`{"id":"0-1-0","project":"shop~1","since":"2026-11-20T12:00:00Z","message":{"title":"t"}}`)
	for range 2 { // stored twice, it is the same letter
		storeDeadLetter(t, topology, outbox.DeadLetter(subject, 7, "rejected", "400", time.Now(), data))
	}
	storeDeadLetter(t, topology, outbox.DeadLetter(subject, 8, "rejected", "400", time.Now(), []byte("not an alert")))
	page, err := retried(t, func(ctx context.Context) (stream.LetterPage, error) { return letters.List(ctx, 0, 10) })
	if err != nil || len(page.Letters) != 2 {
		t.Fatalf("%+v: %v", page, err)
	}
	if err := replay(t, letters.Letters.Replay, page.Letters[0].ID); !errors.Is(err, stream.ErrNeverQueued) {
		t.Errorf("replayed as a record: %v", err)
	}
	if err := replay(t, letters.Replay, page.Letters[0].ID); err != nil {
		t.Fatal(err)
	}
	if n := waiting(t, js, subject); n != 1 {
		t.Errorf("%d wait", n)
	}
	if err := replay(t, letters.Replay, page.Letters[0].ID); !errors.Is(err, stream.ErrNoLetter) {
		t.Errorf("a second replay: %v", err)
	}
	if err := replay(t, letters.Replay, page.Letters[1].ID); !errors.Is(err, stream.ErrNeverQueued) {
		t.Errorf("a letter that is not an alert: %v", err)
	}
}
