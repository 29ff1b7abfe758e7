package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/outbox"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/webhook"
)

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
	box, err := outbox.Open(t.Context(), js, outbox.Config{Partitions: 4})
	if err != nil {
		t.Fatal(err)
	}
	return box, js, topology
}

func waiting(t *testing.T, js jetstream.JetStream, subject string) int {
	t.Helper()
	s, err := js.Stream(t.Context(), outbox.Stream)
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(t.Context(), jetstream.WithSubjectFilter(subject))
	if err != nil {
		t.Fatal(err)
	}
	return int(info.State.Subjects[subject])
}

func entry(project string, i int) outbox.Entry {
	return outbox.Entry{ID: fmt.Sprintf("0-%d-0", i), Project: project, Since: time.Now(), Message: webhook.Message{Title: "t"}}
}

func TestAnAlertPutTwiceWaitsOnceAndGoesWithItsSubject(t *testing.T) {
	t.Parallel()
	box, js, _ := open(t)
	for _, project := range []string{"my.shop~1", "other~2"} {
		for i := range 3 {
			for range 2 {
				if err := box.Put(t.Context(), entry(project, i)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	subject := box.Subject("my.shop~1")
	if n := waiting(t, js, subject); n != 3 {
		t.Errorf("%d wait, want 3", n)
	}
	if e, err := box.Entry(t.Context(), 2); err != nil || e.ID != "0-1-0" || e.Message.Title != "t" {
		t.Errorf("the second is %+v: %v", e, err)
	}
	if err := box.Remove(t.Context(), subject, 2); err != nil {
		t.Fatal(err)
	}
	if mine, others := waiting(t, js, subject), waiting(t, js, box.Subject("other~2")); mine != 1 || others != 3 {
		t.Errorf("after two were removed %d and %d wait", mine, others)
	}
}

func TestAFullDestinationRefusesForItselfOnly(t *testing.T) {
	t.Parallel()
	box, js, _ := open(t)
	const many = 10_000
	for i := range many {
		if _, err := js.PublishAsync(box.Subject("flood~1"), []byte("{}")); err != nil {
			t.Fatal(err)
		}
		if i%500 == 0 {
			<-js.PublishAsyncComplete()
		}
	}
	<-js.PublishAsyncComplete()
	if err := box.Put(t.Context(), entry("flood~1", 1)); !errors.Is(err, outbox.ErrFull) {
		t.Errorf("one over the bound: %v", err)
	}
	if err := box.Put(t.Context(), entry("other~2", 1)); err != nil {
		t.Errorf("another destination: %v", err)
	}
}

func TestReplayPutsAnAlertBackAndLeavesRecordsToTheirStreams(t *testing.T) {
	t.Parallel()
	box, js, topology := open(t)
	letters := outbox.NewLetters(js)
	subject := box.Subject("shop~1")
	data := []byte(`{"id":"0-1-0","project":"shop~1","since":"2026-11-20T12:00:00Z","message":{"title":"t"}}`)
	for range 2 { // buried again it is the same letter
		if err := topology.Bury(t.Context(), outbox.Letter(subject, 7, "rejected", "400", time.Now(), data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := topology.Bury(t.Context(), outbox.Letter(subject, 8, "rejected", "400", time.Now(), []byte("no alert"))); err != nil {
		t.Fatal(err)
	}
	page, err := letters.List(t.Context(), 0, 10)
	if err != nil || len(page.Letters) != 2 {
		t.Fatalf("%+v: %v", page, err)
	}
	if _, err := letters.Letters.Replay(t.Context(), page.Letters[0].ID); !errors.Is(err, stream.ErrNeverQueued) {
		t.Errorf("by the way of records: %v", err)
	}
	if _, err := letters.Replay(t.Context(), page.Letters[0].ID); err != nil {
		t.Fatal(err)
	}
	if n := waiting(t, js, subject); n != 1 {
		t.Errorf("%d wait", n)
	}
	if _, err := letters.Replay(t.Context(), page.Letters[0].ID); !errors.Is(err, stream.ErrNoLetter) {
		t.Errorf("a second replay: %v", err)
	}
	if _, err := letters.Replay(t.Context(), page.Letters[1].ID); !errors.Is(err, stream.ErrNeverQueued) {
		t.Errorf("a letter that is no alert: %v", err)
	}
}
