// Package natstest runs a real NATS server for tests.
package natstest

import (
	"context"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/embedded"
)

// stopTimeout bounds a stop on a machine that is busy or suspended for seconds.
const stopTimeout = time.Minute

// Start runs a server until the test ends.
func Start(t testing.TB, config embedded.NATSConfig) *embedded.NATS {
	t.Helper()
	server, err := embedded.StartNATS(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Stop(t, server) })
	return server
}

// Stop stops a server before the test ends. It may be called more than once.
func Stop(t testing.TB, server *embedded.NATS) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := server.Stop(ctx); err != nil {
		t.Error(err)
	}
}
