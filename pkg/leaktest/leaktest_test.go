package leaktest

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { Main(m) }

// waitUntilClosed is the goroutine that the tests start.
func waitUntilClosed(end <-chan struct{}) { <-end }

// Not parallel, like the next test: both check the goroutines of the whole process.
func TestGoroutineThatDoesNotEndIsNamed(t *testing.T) {
	before := goleak.IgnoreCurrent()
	end := make(chan struct{})
	defer close(end)
	go waitUntilClosed(end)
	if err := waitForEnd(0, before); err == nil || !strings.Contains(err.Error(), "leaktest.waitUntilClosed") {
		t.Errorf("the error does not name the goroutine: %v", err)
	}
}

func TestGoroutineThatEndsWithinTheTimeoutIsNoError(t *testing.T) {
	before := goleak.IgnoreCurrent()
	end := make(chan struct{})
	late := time.AfterFunc(time.Second, func() { close(end) }) // longer than one check
	defer late.Stop()
	go waitUntilClosed(end)
	if err := waitForEnd(timeout, before); err != nil {
		t.Error(err)
	}
}
