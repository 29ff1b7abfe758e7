package notify

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/logboom/logboom/pkg/lease"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/outbox"
)

const (
	// maxDigest is how many alerts one digest may stand for.
	maxDigest = 5000
	// addressEvery is how often a waiting destination checks whether its address
	// was changed.
	addressEvery = 5 * time.Second
	// maxAttempt is how long a started attempt may continue when the notifier
	// stops: a little longer than the timeout of a webhook.
	maxAttempt = 12 * time.Second
)

// waitingAlert is one alert in the queue of its destination.
type waitingAlert struct {
	seq   uint64 // in the outbox
	id    string
	title string
	count int           // how many logs it stands for, at least 1
	entry *outbox.Entry // nil behind many others: it is loaded again when it is sent
	event *outbox.EventPosition
	since time.Time
}

// destination is the address of one project, with the alerts that wait for it.
// Its fields belong to the goroutine of run, except for those under mu.
type destination struct {
	n           *Notifier
	project     string
	subject     string // in the outbox
	key         string // in the bucket
	storedState        // the state in the bucket
	pace        pace
	finished    uint64         // Committed when this notifier started
	storm       bool           // alerts waited while the window was used up
	pausedUntil time.Time      // the service has asked for a pause
	unremoved   []waitingAlert // finished by an earlier notifier, but still in the outbox

	mu         sync.Mutex
	queue      []waitingAlert
	newest     *outbox.EventPosition // of the events that were pushed
	newestTime time.Time             // when the queue stored that event
	wake       chan struct{}         // capacity 1: an alert was pushed
}

func newDestination(n *Notifier, projectID, subject, key string, stored storedState) *destination {
	d := &destination{
		n: n, project: projectID, subject: subject, key: key, storedState: stored, finished: stored.Committed,
		newest: stored.Event, newestTime: stored.EventTime, wake: make(chan struct{}, 1),
		pace: pace{perWindow: n.cfg.PerMinute, window: n.timing.window},
	}
	d.state.Project = projectID
	if d.Condition == "" {
		d.Condition = active
	}
	n.metrics.countCondition("", d.Condition)
	return d
}

// unregister removes the destination from the metrics, after run has returned.
func (d *destination) unregister() {
	d.n.metrics.countCondition(d.Condition, "")
	d.n.metrics.waiting.Sub(float64(len(d.queue)))
}

// push adds an alert. Alerts must come in the order of the outbox.
func (d *destination) push(seq uint64, e outbox.Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if seq > d.finished && d.isDuplicate(&e) {
		return
	}
	a := waitingAlert{seq: seq, id: e.ID, title: e.Message.Title, count: max(e.Message.Count, 1), event: e.Event, since: e.Since}
	if len(d.queue) <= d.n.cfg.PerMinute {
		a.entry = &e
	}
	d.queue = append(d.queue, a)
	d.n.metrics.waiting.Inc()
	select {
	case d.wake <- struct{}{}:
	default: // the destination is awake already
	}
}

// isDuplicate reports whether an event was published to the outbox twice. Events
// come in order, so an event that is not newer than the newest one is a
// duplicate.
func (d *destination) isDuplicate(e *outbox.Entry) bool {
	if e.Event == nil || e.Replay != 0 {
		return false
	}
	if d.newest != nil && !after(*e.Event, *d.newest) && !e.Since.After(d.newestTime) {
		return true
	}
	d.newest, d.newestTime = e.Event, e.Since
	return false
}

func after(a, b outbox.EventPosition) bool { return a.Seq > b.Seq || a.Seq == b.Seq && a.Idx > b.Idx }

// run delivers the alerts until ctx ends. It finishes a started attempt.
func (d *destination) run(ctx context.Context) error {
	late, cancel := lease.WithGrace(ctx, maxAttempt, ledger.ErrFenced)
	defer cancel()
	if err := d.recoverAttempt(late); err != nil {
		return err
	}
	for {
		b, err := d.next(ctx)
		if err != nil {
			return err
		}
		if err := d.deliver(ctx, late, b); err != nil {
			return err
		}
	}
}

// batch is what one message stands for: the first waiting alert, or a digest of
// the first ones.
type batch struct {
	alerts []waitingAlert
	digest bool
}

func (b *batch) from() uint64 { return b.alerts[0].seq }
func (b *batch) to() uint64   { return b.alerts[len(b.alerts)-1].seq }

// id returns the ID of the message, which is the same for every attempt.
func (b *batch) id() string {
	if b.digest {
		return fmt.Sprintf("d-%d-%d", b.from(), b.to())
	}
	return b.alerts[0].id
}

// next waits until a message may be sent and returns its batch.
func (d *destination) next(ctx context.Context) (batch, error) {
	for {
		if err := d.removeFinished(ctx); err != nil {
			return batch{}, err
		}
		b, due := d.choose(time.Now())
		if len(b.alerts) > 0 {
			return b, nil
		}
		if soon := time.Now().Add(addressEvery); due.After(soon) {
			due = soon
		}
		if err := d.wait(ctx, due); err != nil {
			return batch{}, err
		}
		if time.Now().Before(d.Next) { // a changed address ends the pause
			if alerts, err := d.n.alerts.load(ctx, d.project); err == nil && alerts.WebhookURL.IsSet() {
				d.setTarget(target(d.project, alerts))
			}
		}
	}
}

// wait waits until an alert is pushed or until due; the zero time means never.
func (d *destination) wait(ctx context.Context, due time.Time) error {
	var timeout <-chan time.Time
	if !due.IsZero() {
		timer := time.NewTimer(time.Until(due))
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-d.wake:
	case <-timeout:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// choose returns the batch to send now, or an empty batch and the time at which
// to choose again.
func (d *destination) choose(now time.Time) (batch, time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case len(d.queue) == 0:
		return batch{}, time.Time{}
	case d.Intent != nil:
		return d.chooseIntent(now)
	case d.Condition == disabled && now.Before(d.Next):
		return d.first(len(d.queue) > d.n.cfg.PerMinute), now // deliver dead-letters it
	}
	due := d.pace.due(now)
	for _, later := range []time.Time{d.Next, d.pausedUntil} {
		if later.After(due) {
			due = later
		}
	}
	if now.Before(due) {
		d.storm = d.storm || d.pace.remaining(now) == 0
		return batch{}, due
	}
	return d.first(d.storm && len(d.queue) > 1 || len(d.queue) > d.pace.remaining(now)), now
}

// chooseIntent returns the batch of the intent, once all its alerts are here.
func (d *destination) chooseIntent(now time.Time) (batch, time.Time) {
	in := d.Intent
	if d.queue[len(d.queue)-1].seq < in.To {
		return batch{}, time.Time{}
	}
	count := 0
	for count < len(d.queue) && d.queue[count].seq <= in.To {
		count++
	}
	if count == 0 { // its alerts were removed from the outbox
		d.Intent = nil
		return batch{}, now
	}
	if now.Before(d.Next) {
		return batch{}, d.Next
	}
	return batch{d.queue[:count:count], in.Digest}, now
}

// first returns a batch of the first alert, or a digest of the first ones.
func (d *destination) first(digest bool) batch {
	d.storm = false
	count := 1
	if digest {
		count = min(len(d.queue), maxDigest)
	}
	return batch{d.queue[:count:count], digest && count > 1}
}

// popLocked removes the first alerts of the queue.
func (d *destination) popLocked(count int) {
	clear(d.queue[:count]) // releases the texts
	d.queue = d.queue[count:]
	d.n.metrics.waiting.Sub(float64(count))
}

// setAsideFinished moves the alerts that an earlier notifier finished from the
// queue to unremoved. It reports whether all of them have come.
func (d *destination) setAsideFinished() (complete bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.queue) > 0 && d.queue[0].seq <= d.finished {
		d.unremoved = append(d.unremoved, d.queue[0])
		d.popLocked(1)
	}
	return len(d.queue) > 0 || len(d.unremoved) > 0 && d.unremoved[len(d.unremoved)-1].seq >= d.finished
}
