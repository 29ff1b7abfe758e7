package session

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/stream/streamtest"
)

// patient is the test's context with a deadline: without one, the queue's client
// puts its own of 5 s in the place.
func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// queue is a real queue of the test's own.
func queue(t *testing.T) jetstream.JetStream {
	t.Helper()
	server, err := embedded.StartNATS(patient(t), embedded.NATSConfig{DataDir: t.TempDir(), MaxStore: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop(context.Background()) })
	nc, js, err := stream.Connect(patient(t), server.URL(), streamtest.Calm("test"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return js
}

// open gives sessions over a real record.
func open(t *testing.T, js jetstream.JetStream) (*Sessions, *project.Store) {
	t.Helper()
	store, err := project.Open(patient(t), js, project.StoreConfig{})
	if err != nil {
		t.Fatal(err)
	}
	sessions, err := Open(patient(t), js, store, 1)
	if err != nil {
		t.Fatal(err)
	}
	return sessions, store
}

func user(t *testing.T, store *project.Store, email string, role project.Role) project.User {
	t.Helper()
	made, err := store.CreateUser(patient(t), email, project.NewSecret("a long password"), role)
	if err != nil {
		t.Fatal(err)
	}
	return made
}
