package writer

import (
	"testing"
	"time"
)

// patience bounds every wait of these tests; on a good day none comes near it.
const patience = 3 * time.Minute

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited too long for: ", what)
		}
	}
}

// wait waits for a signal.
func wait(t *testing.T, what string, signal <-chan struct{}) {
	t.Helper()
	select {
	case <-signal:
	case <-time.After(patience):
		t.Fatal("waited too long for: ", what)
	}
}

// answered asks until there is an answer: one question to the queue waits two
// seconds for it, for which a busy machine may stand still.
func answered[T any](t *testing.T, ask func() (T, error)) (answer T) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		if answer, err = ask(); err == nil {
			return answer
		}
	}
	t.Fatal(err)
	return answer
}
