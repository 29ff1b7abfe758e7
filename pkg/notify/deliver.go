package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/outbox"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/webhook"
)

// Reasons of dead letters.
const (
	reasonRejected = "rejected"             // the service will never accept the message
	reasonExpired  = "expired"              // the message was retried for too long
	reasonDisabled = "destination_disabled" // the service accepts nothing at the address
	reasonFull     = "destination_full"     // too many alerts wait
)

const (
	// maxIntentAge is how old an intent may be when the request is sent. An older
	// one was written before a pause in which another notifier may have taken
	// over.
	maxIntentAge = 3 * time.Second
	// giveUpChat is how long a message to a chat is retried.
	giveUpChat = time.Hour
	// disableAfter is after how long without a success a destination is disabled.
	disableAfter = 24 * time.Hour
	// probeEvery is how often a message is sent to a disabled destination.
	probeEvery = time.Hour
)

// deliver makes one attempt to deliver a batch, or gives the batch up. late ends
// some time after ctx, so that a started attempt is finished.
func (d *destination) deliver(ctx, late context.Context, b batch) error {
	alerts, err := d.n.alerts.load(ctx, d.project)
	switch {
	case errors.Is(err, project.ErrNotFound):
		return d.finish(late, b, outcome{State: uint8(clickhouse.DeliveryFailed), Detail: "the project was deleted"})
	case err != nil:
		d.n.deps.Logger.Warn("address of alerts not loaded", "project", d.project, "err", err)
		return pause(ctx, addressEvery)
	case !alerts.WebhookURL.IsSet():
		return d.finish(late, b, outcome{State: uint8(clickhouse.DeliveryFailed), Detail: "the project's alerts were turned off"})
	}
	to := target(d.project, alerts)
	d.setTarget(to)
	result := outcome{Destination: redacted(alerts), Format: string(to.Format)}
	if d.Condition == disabled && time.Now().Before(d.Next) {
		result.Detail = "nothing is sent to this address for now, because of earlier permanent errors"
		return d.giveUp(late, b, reasonDisabled, result)
	}
	m, err := d.message(ctx, b)
	if err != nil {
		return err
	}
	if err := d.storeIntent(late, b); err != nil {
		return err
	}
	return d.send(late, b, to, m, result)
}

// setTarget forgets the failures of the last address if it was changed.
func (d *destination) setTarget(to webhook.Target) {
	if d.pace.gap = d.n.timing.gap; d.pace.gap == 0 {
		d.pace.gap = gapOf(to.Format)
	}
	if print := fingerprint(to); d.Address != print {
		d.Address, d.Next, d.Failing = print, time.Time{}, time.Time{}
		d.setCondition(active)
	}
}

func (d *destination) setCondition(c condition) {
	if d.Condition == c {
		return
	}
	d.n.metrics.countCondition(d.Condition, c)
	d.n.deps.Logger.Info("destination changed its condition", "project", d.project, "from", string(d.Condition), "to", string(c))
	d.Condition = c
}

// message renders a batch.
func (d *destination) message(ctx context.Context, b batch) (webhook.Message, error) {
	if b.digest {
		return digestMessage(d.project, b), nil
	}
	if e := b.alerts[0].entry; e != nil {
		return e.Message, nil
	}
	entry, err := d.n.deps.Outbox.Load(ctx, b.alerts[0].seq)
	return entry.Message, err
}

// storeIntent stores what is about to be sent. Nothing is sent without it.
func (d *destination) storeIntent(ctx context.Context, b batch) error {
	next := d.state
	in := intent{ID: b.id(), From: b.from(), To: b.to(), Digest: b.digest, First: time.Now().UTC()}
	if next.Intent != nil {
		in = *next.Intent
	}
	in.Attempt++
	in.Open = true
	next.Intent = &in
	for {
		began := time.Now()
		if err := d.storeState(ctx, next); err != nil {
			return err
		}
		if time.Since(began) < maxIntentAge {
			return nil
		}
	}
}

func (d *destination) storeState(ctx context.Context, next state) error {
	revision, err := d.n.deps.Bucket.swap(ctx, d.key, next, d.revision)
	if err == nil {
		d.storedState = storedState{next, revision}
	}
	return err
}

// send makes one attempt to send the message and handles its result.
func (d *destination) send(ctx context.Context, b batch, to webhook.Target, m webhook.Message, result outcome) error {
	m.Repeat = d.Intent.Unknown
	if m.Repeat && !to.Format.Idempotent() {
		d.n.metrics.unknown.WithLabelValues(string(to.Format)).Inc()
	}
	began := time.Now()
	r := d.n.deps.Deliverer.Deliver(ctx, to, m)
	d.pace.record(time.Now())
	d.n.metrics.countAttempt(to.Format, r.Outcome, time.Since(began))
	result.Status, result.Answer, result.Detail = r.Status, r.Answer, r.Detail
	switch r.Outcome {
	case webhook.Delivered:
		d.Next, d.Failing = time.Time{}, time.Time{}
		d.pausedUntil = time.Now().Add(r.After)
		d.setCondition(active)
		d.n.metrics.latency.Observe(max(0, time.Since(b.alerts[0].since).Seconds()))
		if b.digest {
			d.n.metrics.coalesced.Add(float64(len(b.alerts)))
		}
		result.State = uint8(clickhouse.DeliveryDelivered)
		return d.finish(ctx, b, result)
	case webhook.Rejected:
		return d.giveUp(ctx, b, reasonRejected, result)
	case webhook.Gone, webhook.Refused:
		d.disable()
		return d.giveUp(ctx, b, reasonDisabled, result)
	}
	return d.retryLater(ctx, b, to, r, result)
}

// disable stops sending to the address, except for one message every probeEvery.
func (d *destination) disable() {
	d.Next = time.Now().Add(probeEvery)
	d.setCondition(disabled)
}

// retryLater plans the next attempt, or gives the batch up after too many.
func (d *destination) retryLater(ctx context.Context, b batch, to webhook.Target, r webhook.Result, result outcome) error {
	now := time.Now()
	if d.Failing.IsZero() {
		d.Failing = now
	}
	giveUpAfter := giveUpChat
	if to.Format == webhook.Generic {
		giveUpAfter = d.n.timing.giveUpGeneric
	}
	switch {
	case now.Sub(d.Failing) > disableAfter:
		d.disable()
		return d.giveUp(ctx, b, reasonExpired, result)
	case now.Sub(d.Intent.First) > giveUpAfter:
		return d.giveUp(ctx, b, reasonExpired, result)
	}
	d.setCondition(backingOff)
	next := d.state
	in := *next.Intent
	in.Open, in.Unknown = false, in.Unknown || r.Unknown
	next.Intent = &in
	next.Next = now.Add(max(r.After, retryPause(in.Attempt, d.n.timing.firstBackoff, d.n.timing.maxBackoff)))
	if err := d.storeState(ctx, next); err != nil {
		return err
	}
	return d.publishAttempt(ctx, in, result)
}

// publishAttempt publishes the row of an attempt that is not the last one.
func (d *destination) publishAttempt(ctx context.Context, in intent, result outcome) error {
	result.Attempt, result.State, result.Time = in.Attempt, uint8(clickhouse.DeliveryAttempt), time.Now()
	return d.n.publishRows(ctx, []clickhouse.DeliveryRow{d.row(in.ID, result)})
}

// recoverAttempt handles an attempt of an earlier notifier whose outcome is not
// known: the request may have arrived.
func (d *destination) recoverAttempt(ctx context.Context) error {
	if d.Intent == nil || !d.Intent.Open {
		return nil
	}
	in := *d.Intent
	in.Open, in.Unknown = false, true
	d.Intent = &in
	return d.publishAttempt(ctx, in, outcome{Detail: "interrupted: the message may have arrived and is sent again"})
}

// giveUp dead-letters a batch. It writes the dead letter before the state. A
// repeat writes the same letter, which is stored once.
func (d *destination) giveUp(ctx context.Context, b batch, reason string, result outcome) error {
	m, err := d.message(ctx, b)
	if err != nil {
		return err
	}
	e := outbox.Entry{ID: b.id(), Project: d.project, Since: b.alerts[0].since, Message: m}
	if !b.digest {
		e.Event = b.alerts[0].event
	}
	err = retry(ctx, func() error { return d.n.deadLetter(ctx, d.subject, b.from(), e, reason, result.Detail) }, func(err error) {
		d.n.deps.Logger.Warn("alert not dead-lettered; retrying", "project", d.project, "err", err)
	})
	if err != nil {
		return err
	}
	result.State = uint8(clickhouse.DeliveryFailed)
	return d.finish(ctx, b, result)
}

// deadLetter stores an alert as a dead letter. seq is its sequence in the outbox,
// or 0 if it never was there.
func (n *Notifier) deadLetter(ctx context.Context, subject string, seq uint64, e outbox.Entry, reason, detail string) error {
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("dead letter of alert %s: %w", e.ID, err)
	}
	if err := n.deps.Queue.PublishDeadLetter(ctx, outbox.DeadLetter(subject, seq, reason, detail, e.Since, data)); err != nil {
		return err
	}
	n.metrics.deadLetters.WithLabelValues(reason).Inc()
	return nil
}

// finish ends a batch. It stores the state, then publishes the rows, then removes
// the alerts from the outbox. After a kill in between, removeFinished does the
// rest.
func (d *destination) finish(ctx context.Context, b batch, result outcome) error {
	next := d.state
	result.ID, result.From, result.To, result.Digest, result.Time = b.id(), b.from(), b.to(), b.digest, time.Now().UTC()
	if next.Intent != nil {
		result.ID, result.Attempt = next.Intent.ID, next.Intent.Attempt
	}
	for _, a := range b.alerts {
		if a.event != nil {
			next.Event, next.EventTime = a.event, a.since
		}
	}
	next.Committed, next.Intent, next.Last = result.To, nil, &result
	if err := d.storeState(ctx, next); err != nil {
		return err
	}
	if err := d.remove(ctx, b.alerts, result); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.popLocked(len(b.alerts))
	return nil
}

// remove publishes the rows of finished alerts and removes the alerts from the
// outbox.
func (d *destination) remove(ctx context.Context, alerts []waitingAlert, result outcome) error {
	return retry(ctx, func() error {
		if err := d.n.publishRows(ctx, d.rows(alerts, result)); err != nil {
			return err
		}
		return d.n.deps.Outbox.Remove(ctx, d.subject, result.To)
	}, func(err error) {
		d.n.deps.Logger.Warn("finished alerts not removed from the outbox; retrying", "project", d.project, "err", err)
	})
}

// removeFinished removes the alerts that an earlier notifier has finished.
func (d *destination) removeFinished(ctx context.Context) error {
	if complete := d.setAsideFinished(); !complete || len(d.unremoved) == 0 || d.Last == nil {
		return nil
	}
	alerts := slices.DeleteFunc(d.unremoved, func(a waitingAlert) bool { return a.seq < d.Last.From })
	d.unremoved = nil
	if len(alerts) == 0 {
		return nil
	}
	return d.remove(ctx, alerts, *d.Last)
}

// rows returns the rows of a finished message: its own, and for a digest one for
// each alert.
func (d *destination) rows(alerts []waitingAlert, result outcome) []clickhouse.DeliveryRow {
	rows := []clickhouse.DeliveryRow{d.row(result.ID, result)}
	if !result.Digest {
		return rows
	}
	part := result
	part.State, part.Answer, part.Detail = uint8(clickhouse.DeliveryCoalesced), "", "in "+result.ID
	for _, a := range alerts {
		rows = append(rows, d.row(a.id, part))
	}
	return rows
}

func (d *destination) row(id string, result outcome) clickhouse.DeliveryRow {
	return clickhouse.DeliveryRow{
		Project: d.project, Time: result.Time.UnixNano(), Event: id, Destination: result.Destination, Format: result.Format,
		Attempt: uint16(min(result.Attempt, math.MaxUint16)), State: clickhouse.DeliveryState(result.State), Status: uint16(result.Status),
		Answer: result.Answer, Detail: result.Detail,
	}
}
