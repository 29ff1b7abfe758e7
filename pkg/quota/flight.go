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

//go:embed take.lua
var takeScript string

// How long Redis keeps what nobody asks for any more.
const (
	keepFlight = 10 * time.Minute // longer than a process waits to send a flight again
	keepWindow = 24 * time.Hour   // after the window's end, for late refunds and clocks that differ
)

// flight is one question to Redis. Where no answer came it is sent again, the
// same, until one comes: Redis settles it once, by its number.
type flight struct {
	seq      uint64
	sent     time.Time // first
	deciding bool      // on a batch
	batch    cost      // that is decided on
	rate     rateCall
	day      counterCall
	month    counterCall
}

// rateCall is what a flight says of the rate.
type rateCall struct {
	rate  int64 // 0: nothing
	known bool
	view  float64
	owed  float64
	back  int64
	have  int64
	need  int64
	want  int64
}

// counterCall is what a flight says of a counter.
type counterCall struct {
	window      Window
	limit       int64 // 0: nothing
	spent, back int64
	least       int64
	owed        int64
	have        int64
	need        int64
	want        int64
}

func (r *rateShare) call(n, want int64) rateCall {
	return rateCall{r.rate, r.known, r.view, r.owed, r.back, r.lease, max(n-r.lease, 0), want}
}

func (s *share) call(n, want int64) counterCall {
	return counterCall{s.window, s.limit, s.spent, s.back, s.least, s.owed, s.lease, max(n-s.lease, 0), want}
}

// answer is Redis' answer to a flight.
type answer struct {
	granted bool
	rate    rateAnswer
	day     counterAnswer
	month   counterAnswer
}

type rateAnswer struct {
	level  float64
	leased int64
}

type counterAnswer struct {
	spent, back int64
	leased      int64
}

// errStale is the answer to a flight that comes after a later one of the same
// process, which never sends one.
var errStale = errors.New("redis: quota: the question was overtaken by a later one")

// tower sends flights.
type tower struct {
	client   redis.UniversalClient
	script   *redis.Script
	instance string // names the process in Redis
	timeout  time.Duration
}

// send asks Redis and waits for at most the timeout. The question is more than
// its caller's: it does not end with the caller's request.
func (t *tower) send(ctx context.Context, project string, f *flight, now time.Time) (answer, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.timeout)
	defer cancel()
	reply, err := t.script.Run(ctx, t.client, t.keys(project, f), f.args(t.instance, now)...).Text()
	if err != nil {
		return answer{}, fmt.Errorf("redis: quota: %w", err)
	}
	return parseAnswer(reply)
}

// keys names what a flight touches; the braces keep it on one node.
func (t *tower) keys(project string, f *flight) []string {
	prefix := "q:{" + project + "}:"
	return []string{
		prefix + "flight:" + t.instance,
		prefix + string(Rate) + ":now",
		prefix + string(DailyRecords) + ":" + f.day.window.Start.Format("20060102"),
		prefix + string(MonthlyBytes) + ":" + f.month.window.Start.Format("200601"),
	}
}

// args are the script's, in its order.
func (f *flight) args(instance string, now time.Time) []any {
	args := make([]any, 0, 30)
	args = append(args, f.seq, keepFlight.Milliseconds(), f.deciding)
	view := ""
	if f.rate.known {
		view = strconv.FormatFloat(f.rate.view, 'f', 6, 64)
	}
	args = append(args, f.rate.rate, burst(f.rate.rate), view, f.rate.owed-float64(f.rate.back),
		f.rate.have, f.rate.need, f.rate.want, keepRateLease.Microseconds(), instance)
	for _, c := range [...]*counterCall{&f.day, &f.month} {
		keep := max(c.window.End.Sub(now), 0) + keepWindow
		args = append(args, c.limit, c.spent, c.back, c.least, c.owed, c.have, c.need, c.want, keep.Milliseconds())
	}
	return args
}

func parseAnswer(reply string) (a answer, err error) {
	if reply == "stale" {
		return a, errStale
	}
	var granted int
	_, err = fmt.Sscan(reply, &granted, &a.rate.level, &a.rate.leased,
		&a.day.spent, &a.day.back, &a.day.leased, &a.month.spent, &a.month.back, &a.month.leased)
	if err != nil {
		return a, fmt.Errorf("redis: quota: answer %.100q: %w", reply, err)
	}
	a.granted = granted == 1
	return a, nil
}
