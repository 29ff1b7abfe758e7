// Package leaktest fails a test binary whose tests leave goroutines behind.
//
// goleak's VerifyTestMain waits only half a second for goroutines to end, which
// is too short on a busy machine. This package waits up to a minute.
package leaktest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// timeout is how long goroutines may take to end after the tests.
const timeout = time.Minute

// Main runs the tests and exits. A package calls it from TestMain. The options
// name the goroutines that may stay.
func Main(m *testing.M, options ...goleak.Option) {
	code := m.Run()
	if code == 0 {
		if err := waitForEnd(timeout, options...); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines are still running:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// waitForEnd waits until no unexpected goroutine runs. After the timeout, it
// returns an error that names the goroutines. Each check takes up to half a
// second.
func waitForEnd(timeout time.Duration, options ...goleak.Option) error {
	for began := time.Now(); ; {
		err := goleak.Find(options...)
		if err == nil || time.Since(began) >= timeout {
			return err
		}
	}
}
