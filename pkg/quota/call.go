package quota

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed call.lua
var callScript string

// How long Redis keeps what no process uses.
const (
	keepCall   = 10 * time.Minute // longer than a process waits to repeat a call
	keepWindow = 24 * time.Hour   // after the window's end, for late refunds and clocks that differ
)

// call is one call of the script. A call without an answer is repeated unchanged
// until it has one; Redis carries it out once, by its number.
type call struct {
	seq      uint64
	sent     time.Time // for the first time
	deciding bool      // on batch
	batch    cost
	rate     bucketCall
	day      counterCall
	month    counterCall
}

// bucketCall is what a call says of the rate.
type bucketCall struct {
	limit     int64 // 0: nothing
	known     bool
	level     float64
	uncounted float64
	returned  int64
	have      int64 // what is left of the process's lease
	need      int64 // what the batch needs beyond that
	want      int64 // what to lease
}

// counterCall is what a call says of a counter.
type counterCall struct {
	window           Window
	limit            int64 // 0: nothing
	spent, returned  int64
	floor            int64
	uncounted        int64
	have, need, want int64 // as in bucketCall
}

// windowStart returns the start of the window that a call counts in, or zero if
// it counts nothing.
func (c *counterCall) windowStart() time.Time {
	if c.limit == 0 {
		return time.Time{}
	}
	return c.window.Start
}

// answer is the script's answer to a call.
type answer struct {
	granted bool
	rate    bucketAnswer
	day     counterAnswer
	month   counterAnswer
}

type bucketAnswer struct {
	level  float64
	leased int64
}

type counterAnswer struct {
	spent, returned int64
	leased          int64
}

// errStale is the answer to a call that arrives after a later one of the same
// process. A process never sends such a call.
var errStale = errors.New("redis: quota: a later call was carried out before this one")

// caller calls the script.
type caller struct {
	client   redis.UniversalClient
	script   *redis.Script
	instance string // names the process in Redis
	timeout  time.Duration
}

// send calls the script and waits for the timeout at most. The call matters to
// more than one request, so it does not end with the caller's context.
func (r *caller) send(ctx context.Context, project string, c *call, now time.Time) (answer, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.timeout)
	defer cancel()
	reply, err := r.script.Run(ctx, r.client, r.keys(project, c), c.args(r.instance, now)...).Text()
	if err != nil {
		return answer{}, fmt.Errorf("redis: quota: %w", err)
	}
	return parseAnswer(reply)
}

// keys returns the keys that a call uses. The braces keep them on one node.
func (r *caller) keys(project string, c *call) []string {
	prefix := "q:{" + project + "}:"
	return []string{
		prefix + "call:" + r.instance,
		prefix + string(Rate) + ":now",
		prefix + string(DailyRecords) + ":" + c.day.window.Start.Format("20060102"),
		prefix + string(MonthlyBytes) + ":" + c.month.window.Start.Format("200601"),
	}
}

// args returns the script's arguments, in its order.
func (c *call) args(instance string, now time.Time) []any {
	args := make([]any, 0, 30)
	args = append(args, c.seq, keepCall.Milliseconds(), c.deciding)
	level := ""
	if c.rate.known {
		level = strconv.FormatFloat(c.rate.level, 'f', 6, 64)
	}
	args = append(args, c.rate.limit, burst(c.rate.limit), level, c.rate.uncounted-float64(c.rate.returned),
		c.rate.have, c.rate.need, c.rate.want, keepRateLease.Microseconds(), instance)
	for _, one := range [...]*counterCall{&c.day, &c.month} {
		keep := max(one.window.End.Sub(now), 0) + keepWindow
		args = append(args, one.limit, one.spent, one.returned, one.floor, one.uncounted, one.have, one.need, one.want, keep.Milliseconds())
	}
	return args
}

func parseAnswer(reply string) (a answer, err error) {
	if reply == "stale" {
		return a, errStale
	}
	var granted int
	_, err = fmt.Sscan(reply, &granted, &a.rate.level, &a.rate.leased,
		&a.day.spent, &a.day.returned, &a.day.leased, &a.month.spent, &a.month.returned, &a.month.leased)
	if err != nil {
		return a, fmt.Errorf("redis: quota: answer %.100q: %w", reply, err)
	}
	a.granted = granted == 1
	return a, nil
}
