//go:build failpoint

package writer

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// failpointVariable holds one failpoint, as name:kill|error|sleep:<n-th>: what
// to do when the named point is reached for the n-th time.
const failpointVariable = "LOGBOOM_FAILPOINT"

// failpointSleep is longer than a lease and than the deadline of an insert.
const failpointSleep = 40 * time.Second

// failpoints is the one that was asked for; none has no name.
type failpoints struct {
	at   point
	verb string
	left *atomic.Int64 // times until it happens
	bad  error
}

func newFailpoints() failpoints { return parseFailpoint(os.Getenv(failpointVariable)) }

func parseFailpoint(text string) failpoints {
	if text == "" {
		return failpoints{}
	}
	bad := failpoints{bad: fmt.Errorf("%s is %q: give name:kill|error|sleep:<n-th>", failpointVariable, text)}
	parts := strings.Split(text, ":")
	if len(parts) != 3 || !slices.Contains([]string{"kill", "error", "sleep"}, parts[1]) {
		return bad
	}
	points := []point{
		pointTakeOver, pointBeforeIntent, pointAfterIntent, pointInsideInsert, pointAfterInsert, pointBeforeCommit, pointAfterCommit,
	}
	n, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil || n < 1 || !slices.Contains(points, point(parts[0])) {
		return bad
	}
	f := failpoints{at: point(parts[0]), verb: parts[1], left: &atomic.Int64{}}
	f.left.Store(n)
	return f
}

// hit fails where this is the point and the time that were asked for, and says
// so before: who counts the failures reads it.
func (f failpoints) hit(at point) error {
	if f.bad != nil {
		return f.bad
	}
	if f.at != at || f.left.Add(-1) != 0 {
		return nil
	}
	fmt.Fprintln(os.Stderr, "failpoint", at)
	switch f.verb {
	case "kill":
		// SIGKILL gives no time for anything; what follows is never reached.
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "sleep":
		time.Sleep(failpointSleep)
		return nil
	}
	return fmt.Errorf("failpoint %s", at)
}
