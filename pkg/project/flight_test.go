package project

import (
	"errors"
	"testing"
)

func TestFlightThatPanicsLeavesNobodyWaiting(t *testing.T) {
	t.Parallel()
	f := flights{current: map[flightKey]*flight{}}
	took, joined := make(chan struct{}), make(chan error, 1) // one answer
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_, _ = f.do(t.Context(), flightKey{}, func() (Identity, error) {
			other := f.current[flightKey{}]
			go func() {
				close(took)
				_, err := other.wait(t.Context())
				joined <- err
			}()
			<-took
			panic("on purpose")
		})
	}()
	if err := <-joined; !errors.Is(err, ErrUnavailable) {
		t.Errorf("who waited: %v", err)
	}
	if len(f.current) != 0 {
		t.Error("the flight is still there")
	}
}
