//go:build failpoint

package writer

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/logboom/logboom/pkg/stream"
)

// failpointVariable holds one failpoint as name:kill|error|sleep:<n>: what to do
// when the named point is reached for the n-th time.
const failpointVariable = "LOGBOOM_FAILPOINT"

// failpointSleep is longer than a lease and than the deadline of an insert.
const failpointSleep = 40 * time.Second

// failpoints is the failpoint that was set; without one it has no name.
type failpoints struct {
	at   point
	verb string
	left *atomic.Int64 // times until it happens
	bad  error         // the variable cannot be parsed
}

func newFailpoints() failpoints { return parseFailpoint(os.Getenv(failpointVariable)) }

func parseFailpoint(text string) failpoints {
	if text == "" {
		return failpoints{}
	}
	bad := failpoints{bad: fmt.Errorf("%s is %q: want name:kill|error|sleep:<n>", failpointVariable, text)}
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

// hit fails at the point and the time that were set. It prints the point first,
// so that a test can count the failures.
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
		// SIGKILL ends the process at once; nothing after it runs.
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "sleep":
		time.Sleep(failpointSleep)
		return nil
	}
	return fmt.Errorf("failpoint %s", at)
}

// daysVariable holds a number of messages. Every second run of so many messages
// is moved back by a day, so that batches have two partitions at any time of the
// day. All writers of a queue must have the same value.
const daysVariable = "LOGBOOM_FAILPOINT_DAYS"

func daysFromEnvironment() uint64 {
	run, err := strconv.ParseUint(os.Getenv(daysVariable), 10, 32)
	if err != nil {
		return 0 // not set
	}
	return run
}

// queue returns the queue, with its messages on two days if that is set.
func (failpoints) queue(q Queue) Queue {
	if run := daysFromEnvironment(); run > 0 {
		return twoDays{Queue: q, run: run}
	}
	return q
}

// source returns the source, with its messages on the same days.
func (failpoints) source(s source) source {
	if run := daysFromEnvironment(); run > 0 {
		return twoDaysSource{source: s, run: run}
	}
	return s
}

// twoDays is a queue that received every second run of messages a day earlier.
type twoDays struct {
	Queue
	run uint64
}

func shift(at time.Time, seq, run uint64) time.Time {
	if seq/run%2 == 1 {
		return at.AddDate(0, 0, -1)
	}
	return at
}

func (q twoDays) ReadRange(ctx context.Context, name string, from, to uint64) ([]stream.Delivery, error) {
	deliveries, err := q.Queue.ReadRange(ctx, name, from, to)
	for i := range deliveries {
		deliveries[i].Time = shift(deliveries[i].Time, deliveries[i].Seq, q.run)
	}
	return deliveries, err
}

func (q twoDays) First(ctx context.Context, name string, from uint64) (stream.Place, error) {
	mark, err := q.Queue.First(ctx, name, from)
	mark.Time = shift(mark.Time, mark.Seq, q.run)
	return mark, err
}

// twoDaysSource is a consumer of such a queue.
type twoDaysSource struct {
	source
	run uint64
}

func (s twoDaysSource) Next(ctx context.Context) (stream.Delivery, error) {
	delivery, err := s.source.Next(ctx)
	delivery.Time = shift(delivery.Time, delivery.Seq, s.run)
	return delivery, err
}
