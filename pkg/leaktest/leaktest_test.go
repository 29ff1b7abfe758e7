package leaktest

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { Main(m) }

// stays is the goroutine that is looked for.
func stays(end <-chan struct{}) { <-end }

// Not parallel, as the next: they look at the goroutines of the whole process.
func TestGoroutineThatStaysIsNamed(t *testing.T) {
	before := goleak.IgnoreCurrent()
	end := make(chan struct{})
	defer close(end)
	go stays(end)
	if err := within(0, before); err == nil || !strings.Contains(err.Error(), "leaktest.stays") {
		t.Errorf("found: %v", err)
	}
}

func TestGoroutineThatEndsLateIsNone(t *testing.T) {
	before := goleak.IgnoreCurrent()
	end := make(chan struct{})
	late := time.AfterFunc(time.Second, func() { close(end) }) // more than one look
	defer late.Stop()
	go stays(end)
	if err := within(patience, before); err != nil {
		t.Error(err)
	}
}
