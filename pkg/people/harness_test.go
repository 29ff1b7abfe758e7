package people

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/embedded/natstest"
	"github.com/logboom/logboom/pkg/leaktest"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/secret"
	"github.com/logboom/logboom/pkg/token"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// patience bounds what has to happen, on machines that are busy or suspended for
// seconds.
const patience = 2 * time.Minute

// patient returns the test's context with a deadline. Without one, the queue's
// client sets its own of 5 s.
func patient(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// queue returns a connection that waits for a slow server.
func queue(t testing.TB, address string) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(address, nats.Timeout(patience), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectBufSize(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// The stores of other packages under names that can be embedded beside this
// package's.
type (
	projectStore = project.Store
	tokenStore   = token.Store
)

// stores joins the stores of projects, tokens and people.
type stores struct {
	*projectStore
	*tokenStore
	*Store
}

func openStores(t testing.TB, js jetstream.JetStream) stores {
	t.Helper()
	projects, err := project.Open(patient(t), js, project.Config{})
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := token.Open(patient(t), js, projects, 1)
	if err != nil {
		t.Fatal(err)
	}
	users, err := Open(patient(t), js, projects, 1)
	if err != nil {
		t.Fatal(err)
	}
	return stores{projects, tokens, users}
}

// connect opens the stores of the server at the address, over a connection of
// its own.
func connect(t testing.TB, address string) stores {
	t.Helper()
	return openStores(t, queue(t, address))
}

// newStore opens the stores of a new server.
func newStore(t testing.TB) stores {
	t.Helper()
	return connect(t, natstest.Start(t, embedded.NATSConfig{DataDir: t.TempDir()}).URL())
}

// openSessions opens sessions over real users.
func openSessions(t *testing.T, js jetstream.JetStream) (*Sessions, stores) {
	t.Helper()
	store := openStores(t, js)
	sessions, err := OpenSessions(patient(t), js, store.Store, 1)
	if err != nil {
		t.Fatal(err)
	}
	return sessions, store
}

func createUser(t *testing.T, store stores, email string, role Role) User {
	t.Helper()
	created, err := store.CreateUser(patient(t), email, secret.New("a long password"), role)
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// newQueue starts a server and connects to it.
func newQueue(t testing.TB) jetstream.JetStream {
	t.Helper()
	return queue(t, natstest.Start(t, embedded.NATSConfig{DataDir: t.TempDir()}).URL())
}
