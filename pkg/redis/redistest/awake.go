package redistest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Awake is a clock that stops while the machine does not run the test. A test
// measures with it how long a paused or slow server delays a caller, without the
// delays of the machine.
type Awake struct{ beats atomic.Int64 }

const beat = 5 * time.Millisecond

// StartAwake starts a clock that runs until the test ends.
func StartAwake(t testing.TB) *Awake {
	t.Helper()
	a := &Awake{}
	ended := make(chan struct{})
	var counter sync.WaitGroup
	counter.Go(func() { a.count(ended) })
	t.Cleanup(func() { close(ended); counter.Wait() })
	return a
}

// count counts beats until ended is closed. A ticker drops beats while the
// process does not run.
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

// Time returns how long the test has run, in steps of 5 ms.
func (a *Awake) Time() time.Duration { return time.Duration(a.beats.Load()) * beat }
