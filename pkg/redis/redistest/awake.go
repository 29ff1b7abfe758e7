package redistest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Awake tells time that stands still while the machine does not let the test
// run. A test measures with it how long a paused or slow server holds somebody
// up, whatever else does.
type Awake struct{ beats atomic.Int64 }

const beat = 5 * time.Millisecond

// StartAwake tells time until the test ends.
func StartAwake(t testing.TB) *Awake {
	t.Helper()
	a := &Awake{}
	ended := make(chan struct{})
	var counter sync.WaitGroup
	counter.Go(func() { a.count(ended) })
	t.Cleanup(func() { close(ended); counter.Wait() })
	return a
}

// count counts beats until ended is closed. A ticker drops those that it is
// late for.
func (a *Awake) count(ended <-chan struct{}) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			a.beats.Add(1)
		case <-ended:
			return
		}
	}
}

// Time is how long the test has run, in steps of 5 ms.
func (a *Awake) Time() time.Duration { return time.Duration(a.beats.Load()) * beat }
