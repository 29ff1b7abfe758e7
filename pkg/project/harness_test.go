package project

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/embedded/natstest"
	"github.com/logboom/logboom/pkg/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// patience bounds what has to happen, on machines that are busy or suspended for
// seconds.
const patience = time.Minute

// connect opens the store of the server at the address, over a connection of
// its own.
func connect(t testing.TB, address string) *Store {
	t.Helper()
	return connectWith(t, address, Config{})
}

func connectWith(t testing.TB, address string, config Config) *Store {
	t.Helper()
	store, err := Open(t.Context(), patientStream(t, address), config)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// patientStream returns a connection that waits for a slow server. It reconnects
// even after another server has answered on the port.
func patientStream(t testing.TB, address string) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(address, nats.Timeout(patience), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond),
		nats.ReconnectBufSize(-1), nats.IgnoreAuthErrorAbort())
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

// newStore opens an empty store of its own.
func newStore(t testing.TB) *Store {
	t.Helper()
	return connect(t, natstest.Start(t, embedded.NATSConfig{DataDir: t.TempDir()}).URL())
}
