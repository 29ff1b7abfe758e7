package notify

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/logboom/logboom/pkg/outbox"
	"github.com/logboom/logboom/pkg/webhook"
)

// maxDigest is how many alerts one digest stands for at most.
const maxDigest = 5000

// item is one alert that waits at its destination.
type item struct {
	seq   uint64
	id    string
	title string
	count int           // how many logs it stands for, at least 1
	entry *outbox.Entry // nil where many wait before it: it is read again when needed
	event *outbox.Place
	since time.Time
}

// destination is one project's address with all that waits for it. Its fields
// belong to the goroutine of run, but for those under mu.
type destination struct {
	n       *Notifier
	project string
	subject string // of the outbox
	key     string // of the bucket
	held           // what is in the bucket
	pace    pace
	before  uint64    // what was committed at the take-over
	storm   bool      // the window was used up while something waited
	rest    time.Time // the service asked to be left alone until then
	left    []item    // dealt with, and not yet taken off the outbox

	mu     sync.Mutex
	queue  []item
	newest *outbox.Place // of the events that were pushed
	at     time.Time     // when the queue had that one
	wake   chan struct{} // capacity 1: something was pushed
}

func newDestination(n *Notifier, projectID, subject, key string, h held) *destination {
	d := &destination{
		n: n, project: projectID, subject: subject, key: key, held: h, before: h.Committed, newest: h.Event, at: h.EventTime, wake: make(chan struct{}, 1),
		pace: pace{perWindow: n.cfg.PerWindow, window: n.cfg.Window},
	}
	d.state.Project = projectID
	if d.Condition == "" {
		d.Condition = Active
	}
	n.metrics.moved("", d.Condition)
	return d
}

// forget takes the destination off the metrics; it is not worked any more.
func (d *destination) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n.metrics.moved(d.Condition, "")
	d.n.metrics.waiting.Sub(float64(len(d.queue)))
}

// push adds what waits, in the order of the outbox.
func (d *destination) push(seq uint64, e outbox.Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if seq > d.before && d.repeated(&e) {
		return
	}
	one := item{seq: seq, id: e.ID, title: e.Message.Title, count: max(e.Message.Count, 1), event: e.Event, since: e.Since}
	if len(d.queue) <= d.n.cfg.PerWindow {
		one.entry = &e
	}
	d.queue = append(d.queue, one)
	d.n.metrics.waiting.Inc()
	select {
	case d.wake <- struct{}{}:
	default: // it is awake already
	}
}

// repeated tells an event that was put into the outbox twice: events come in
// their order, so one that is not newer than the newest was there before.
func (d *destination) repeated(e *outbox.Entry) bool {
	if e.Event == nil || e.Replay != 0 {
		return false
	}
	if d.newest != nil && !after(*e.Event, *d.newest) && !e.Since.After(d.at) {
		return true
	}
	d.newest, d.at = e.Event, e.Since
	return false
}

func after(a, b outbox.Place) bool { return a.Seq > b.Seq || a.Seq == b.Seq && a.Idx > b.Idx }

// run delivers what waits until ctx ends; an attempt that is under way then is
// brought to its end.
func (d *destination) run(ctx context.Context) error {
	late, cancel := outlive(ctx, longestAttempt)
	defer cancel()
	if err := d.recover(late); err != nil {
		return err
	}
	for {
		batch, err := d.next(ctx)
		if err != nil {
			return err
		}
		if err := d.deliver(ctx, late, batch); err != nil {
			return err
		}
	}
}

// batch is what goes out as one message: the first alert that waits, or a
// digest of the first ones.
type batch struct {
	items  []item
	digest bool
}

func (b *batch) from() uint64 { return b.items[0].seq }
func (b *batch) to() uint64   { return b.items[len(b.items)-1].seq }

// id names the message, the same for every attempt.
func (b *batch) id() string {
	if b.digest {
		return fmt.Sprintf("d-%d-%d", b.from(), b.to())
	}
	return b.items[0].id
}

// lookEvery is how often a destination that waits is asked whether its address
// was changed meanwhile.
const lookEvery = 5 * time.Second

// next waits until there is something to be sent and it is time.
func (d *destination) next(ctx context.Context) (batch, error) {
	for {
		if err := d.settleLeft(ctx); err != nil {
			return batch{}, err
		}
		found, due := d.choose(time.Now())
		if len(found.items) > 0 {
			return found, nil
		}
		if soon := time.Now().Add(lookEvery); due.After(soon) {
			due = soon
		}
		if err := d.wait(ctx, due); err != nil {
			return batch{}, err
		}
		if time.Now().Before(d.Next) {
			d.look(ctx)
		}
	}
}

// look ends the waiting where the address was changed. What cannot be read now
// is looked at again.
func (d *destination) look(ctx context.Context) {
	if alerts, err := d.n.settings.of(ctx, d.project); err == nil && alerts.WebhookURL.IsSet() {
		to := target(d.project, alerts)
		to.Format = webhook.Resolve(to.Format, to.Address)
		d.meet(to)
	}
}

// wait returns when something was pushed, or it is time; zero is never.
func (d *destination) wait(ctx context.Context, due time.Time) error {
	var late <-chan time.Time
	if !due.IsZero() {
		timer := time.NewTimer(time.Until(due))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-d.wake:
	case <-late:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// choose is what is to be sent now, or when to look again.
func (d *destination) choose(now time.Time) (batch, time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case len(d.queue) == 0:
		return batch{}, time.Time{}
	case d.Intent != nil:
		return d.again(now)
	case d.Condition == Disabled && now.Before(d.Next):
		return d.first(len(d.queue) > d.n.cfg.PerWindow), now // to be given up
	}
	due := d.pace.due(now)
	for _, later := range []time.Time{d.Next, d.rest} {
		if later.After(due) {
			due = later
		}
	}
	if now.Before(due) {
		d.storm = d.storm || d.pace.left(now) == 0
		return batch{}, due
	}
	return d.first(d.storm && len(d.queue) > 1 || len(d.queue) > d.pace.left(now)), now
}

// again is the message of the intent, once all of it is here.
func (d *destination) again(now time.Time) (batch, time.Time) {
	in := d.Intent
	if d.queue[len(d.queue)-1].seq < in.To {
		return batch{}, time.Time{}
	}
	count := 0
	for count < len(d.queue) && d.queue[count].seq <= in.To {
		count++
	}
	if count == 0 { // somebody has taken it out of the outbox
		d.Intent = nil
		return batch{}, now
	}
	if now.Before(d.Next) {
		return batch{}, d.Next
	}
	return batch{d.queue[:count:count], in.Digest}, now
}

// first is the first alert, or a digest of the first ones.
func (d *destination) first(digest bool) batch {
	d.storm = false
	count := 1
	if digest {
		count = min(len(d.queue), maxDigest)
	}
	return batch{d.queue[:count:count], digest && count > 1}
}

// setAside moves what was dealt with before this notifier took over, and tells
// whether all of it is here.
func (d *destination) setAside() (whole bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.queue) > 0 && d.queue[0].seq <= d.before {
		d.left = append(d.left, d.queue[0])
		d.drop(1)
	}
	return len(d.queue) > 0 || len(d.left) > 0 && d.left[len(d.left)-1].seq >= d.before
}

// drop takes the first items off the queue; mu is held.
func (d *destination) drop(count int) {
	clear(d.queue[:count]) // lets go of the texts
	d.queue = d.queue[count:]
	d.n.metrics.waiting.Sub(float64(count))
}

// done takes a batch off the queue.
func (d *destination) done(b batch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(len(b.items))
}
