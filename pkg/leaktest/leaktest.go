// Package leaktest fails a test binary whose tests leave goroutines behind.
//
// goleak's own VerifyTestMain would do on a machine that is free. What a newcomer
// would get wrong: it looks for half a second and no longer, in which a busy
// machine may not come to the end of what was stopped.
package leaktest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines may take to end after the tests.
const patience = time.Minute

// Main runs the tests and exits, as a TestMain does. The options name what may
// stay.
func Main(m *testing.M, options ...goleak.Option) {
	code := m.Run()
	if code == 0 {
		if err := within(patience, options...); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines are left:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// within looks until no goroutine is left that should not be, or the time is
// over; each look takes half a second.
func within(patience time.Duration, options ...goleak.Option) error {
	for began := time.Now(); ; {
		err := goleak.Find(options...)
		if err == nil || time.Since(began) >= patience {
			return err
		}
	}
}
