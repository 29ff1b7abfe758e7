//go:build failpoint

package writer

import (
	"context"
	"os"
	"strconv"
	"time"

	"github.com/logboom/logboom/pkg/stream"
)

// daysVariable moves every second run of so many messages back by a day, so
// that batches of two partitions do not come at midnight alone. All writers of
// a queue must be given the same.
const daysVariable = "LOGBOOM_FAILPOINT_DAYS"

func daysFromEnvironment() uint64 {
	run, err := strconv.ParseUint(os.Getenv(daysVariable), 10, 32)
	if err != nil {
		return 0 // it is not asked for
	}
	return run
}

// queue is the queue with its messages on two days, where that is asked for.
func (failpoints) queue(q Queue) Queue {
	if run := daysFromEnvironment(); run > 0 {
		return twoDays{Queue: q, run: run}
	}
	return q
}

// source is what is read from the queue, on the same days.
func (failpoints) source(s source) source {
	if run := daysFromEnvironment(); run > 0 {
		return twoDaysSource{source: s, run: run}
	}
	return s
}

// twoDays is a queue that had every second run of messages a day earlier.
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

func (q twoDays) Refetch(ctx context.Context, name string, from, to uint64) ([]stream.Delivery, error) {
	deliveries, err := q.Queue.Refetch(ctx, name, from, to)
	for i := range deliveries {
		deliveries[i].Time = shift(deliveries[i].Time, deliveries[i].Seq, q.run)
	}
	return deliveries, err
}

func (q twoDays) First(ctx context.Context, name string, from uint64) (stream.Mark, error) {
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
