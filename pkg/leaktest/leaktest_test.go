package leaktest

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { Main(m) }

// stays is the goroutine that the tests start.
func stays(end <-chan struct{}) { <-end }

// Not parallel, like the next test: both check the goroutines of the whole process.
func TestGoroutineThatStaysIsNamed(t *testing.T) {
	before := goleak.IgnoreCurrent()
	end := make(chan struct{})
	defer close(end)
	go stays(end)
	if err := waitForEnd(0, before); err == nil || !strings.Contains(err.Error(), "leaktest.stays") {
		t.Errorf("found: %v", err)
	}
}

func TestGoroutineThatEndsLateIsNoError(t *testing.T) {
	before := goleak.IgnoreCurrent()
	end := make(chan struct{})
	late := time.AfterFunc(time.Second, func() { close(end) }) // longer than one check
	defer late.Stop()
	go stays(end)
	if err := waitForEnd(timeout, before); err != nil {
		t.Error(err)
	}
}
