package session

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/stream"
)

// queue is a real queue of the test's own.
func queue(t *testing.T) jetstream.JetStream {
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
	return js
}

// open gives sessions over a real record.
func open(t *testing.T, js jetstream.JetStream) (*Sessions, *project.Store) {
	t.Helper()
	store, err := project.Open(t.Context(), js, project.StoreConfig{})
	if err != nil {
		t.Fatal(err)
	}
	sessions, err := Open(t.Context(), js, store, 1)
	if err != nil {
		t.Fatal(err)
	}
	return sessions, store
}

func user(t *testing.T, store *project.Store, email string, role project.Role) project.User {
	t.Helper()
	made, err := store.CreateUser(t.Context(), email, project.NewSecret("a long password"), role)
	if err != nil {
		t.Fatal(err)
	}
	return made
}
