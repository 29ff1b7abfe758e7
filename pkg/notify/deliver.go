package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/outbox"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/webhook"
)

// Reasons of dead letters.
const (
	reasonRejected = "rejected"             // the service does not take this message
	reasonExpired  = "expired"              // tried for as long as it makes sense
	reasonDisabled = "destination_disabled" // nothing is taken there
	reasonFull     = "destination_full"     // too many wait
)

// intentAge is how old an intent may be when the request is made. One that is
// older was made before a pause, in which another may have taken over.
const intentAge = 3 * time.Second

// deliver makes one attempt at a batch, or gives it up.
func (d *destination) deliver(ctx, late context.Context, b batch) error {
	alerts, err := d.n.settings.of(ctx, d.project)
	switch {
	case errors.Is(err, project.ErrNotFound):
		return d.close(late, b, outcome{State: uint8(clickhouse.DeliveryFailed), Detail: "the project was deleted"})
	case err != nil:
		d.n.deps.Logger.Warn("address of alerts not read", "project", d.project, "err", err)
		return pause(ctx, pauses[len(pauses)-1])
	case !alerts.WebhookURL.IsSet():
		return d.close(late, b, outcome{State: uint8(clickhouse.DeliveryFailed), Detail: "the project's alerts were turned off"})
	}
	to := target(d.project, alerts)
	to.Format = webhook.Resolve(to.Format, to.Address)
	d.meet(to)
	now := outcome{Destination: shown(alerts), Format: string(to.Format)}
	if d.Condition == Disabled && time.Now().Before(d.Next) {
		now.Detail = "nothing is sent to this address for now: it was given up after permanent errors"
		return d.giveUp(late, b, reasonDisabled, now)
	}
	m, err := d.message(ctx, b)
	if err != nil {
		return err
	}
	if err := d.intend(late, b); err != nil {
		return err
	}
	return d.attempt(late, b, to, m, now)
}

// meet forgets what was known of another address.
func (d *destination) meet(to webhook.Target) {
	if d.pace.gap = d.n.cfg.Gap; d.pace.gap == 0 {
		d.pace.gap = gapOf(to.Format)
	}
	if print := fingerprint(to); d.Address != print {
		d.Address, d.Next, d.Failing = print, time.Time{}, time.Time{}
		d.become(Active)
	}
}

func (d *destination) become(c Condition) {
	d.mu.Lock()
	was := d.Condition
	d.n.metrics.moved(was, c)
	d.Condition = c
	d.mu.Unlock()
	if was != c {
		d.n.deps.Logger.Info("destination changed its condition", "project", d.project, "from", string(was), "to", string(c))
	}
}

// intend writes what is about to be sent. Nothing is sent without it.
func (d *destination) intend(ctx context.Context, b batch) error {
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
		if err := d.swap(ctx, next); err != nil {
			return err
		}
		if time.Since(began) < intentAge {
			return nil
		}
	}
}

func (d *destination) swap(ctx context.Context, next state) error {
	revision, err := d.n.deps.Bucket.swap(ctx, d.key, next, d.revision)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = held{next, revision}
	return nil
}

// attempt sends the message and deals with what came of it.
func (d *destination) attempt(ctx context.Context, b batch, to webhook.Target, m webhook.Message, now outcome) error {
	m.Repeat = d.Intent.Unknown
	if m.Repeat && !to.Format.Idempotent() {
		d.n.metrics.unknown.WithLabelValues(string(to.Format)).Inc()
	}
	began := time.Now()
	r := d.n.deps.Deliverer.Deliver(ctx, to, m)
	d.pace.sent(time.Now())
	d.n.metrics.attempted(to.Format, r.Outcome, time.Since(began))
	now.Status, now.Answer, now.Detail = r.Status, r.Answer, r.Detail
	switch r.Outcome {
	case webhook.Delivered:
		return d.delivered(ctx, b, r, now)
	case webhook.Rejected:
		return d.giveUp(ctx, b, reasonRejected, now)
	case webhook.Gone, webhook.Refused:
		d.disable()
		return d.giveUp(ctx, b, reasonDisabled, now)
	}
	return d.failed(ctx, b, to, r, now)
}

func (d *destination) delivered(ctx context.Context, b batch, r webhook.Result, now outcome) error {
	d.Next, d.Failing = time.Time{}, time.Time{}
	d.rest = time.Now().Add(r.After)
	d.become(Active)
	d.n.metrics.latency.Observe(max(0, time.Since(b.items[0].since).Seconds()))
	if b.digest {
		d.n.metrics.coalesced.Add(float64(len(b.items)))
	}
	now.State = uint8(clickhouse.DeliveryDelivered)
	return d.close(ctx, b, now)
}

// disable gives the address up; from time to time one message is tried.
func (d *destination) disable() {
	d.Next = time.Now().Add(d.n.cfg.ProbeEvery)
	d.become(Disabled)
}

// failed plans another attempt, or gives up where it has been tried for long.
func (d *destination) failed(ctx context.Context, b batch, to webhook.Target, r webhook.Result, now outcome) error {
	at := time.Now()
	if d.Failing.IsZero() {
		d.Failing = at
	}
	patience := d.n.cfg.GiveUpChat
	if to.Format == webhook.Generic {
		patience = d.n.cfg.GiveUpGeneric
	}
	switch {
	case at.Sub(d.Failing) > d.n.cfg.DisableAfter:
		d.disable()
		return d.giveUp(ctx, b, reasonExpired, now)
	case at.Sub(d.Intent.First) > patience:
		return d.giveUp(ctx, b, reasonExpired, now)
	}
	next := d.state
	in := *next.Intent
	in.Open, in.Unknown = false, in.Unknown || r.Unknown
	next.Intent = &in
	next.Next = at.Add(max(r.After, backoff(in.Attempt, d.n.cfg.BackoffFirst, d.n.cfg.BackoffMost)))
	d.become(BackingOff)
	next.Condition = BackingOff
	if err := d.swap(ctx, next); err != nil {
		return err
	}
	return d.tell(ctx, in, now)
}

// tell keeps a row of an attempt that another will follow.
func (d *destination) tell(ctx context.Context, in intent, now outcome) error {
	row := d.row(in.ID, now)
	row.Attempt, row.State, row.Time = uint16(min(in.Attempt, 1<<16-1)), clickhouse.DeliveryAttempt, time.Now().UnixNano()
	return d.n.putRows(ctx, []clickhouse.DeliveryRow{row})
}

// giveUp makes a dead letter of a batch. A letter is written before the state
// says so; written again, it is the same letter.
func (d *destination) giveUp(ctx context.Context, b batch, reason string, now outcome) error {
	m, err := d.message(ctx, b)
	if err != nil {
		return err
	}
	e := outbox.Entry{ID: b.id(), Project: d.project, Since: b.items[0].since, Message: m}
	if !b.digest {
		e.Event = b.items[0].event
	}
	for attempt := 0; ; attempt++ { // nothing else can be done with it
		err := d.n.bury(ctx, d.subject, b.from(), e, reason, now.Detail)
		if err == nil {
			break
		}
		d.n.deps.Logger.Warn("alert not put among the dead letters yet", "project", d.project, "err", err)
		if err := pause(ctx, pauses[min(attempt, len(pauses)-1)]); err != nil {
			return err
		}
	}
	now.State = uint8(clickhouse.DeliveryFailed)
	return d.close(ctx, b, now)
}

// bury puts an alert among the dead letters.
func (n *Notifier) bury(ctx context.Context, subject string, seq uint64, e outbox.Entry, reason, detail string) error {
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("bury alert %s: %w", e.ID, err)
	}
	if err := n.deps.Queue.PublishDeadLetter(ctx, outbox.Letter(subject, seq, reason, detail, e.Since, data)); err != nil {
		return err
	}
	n.metrics.buried.WithLabelValues(reason).Inc()
	return nil
}

// buryEntry is bury for what never came into the outbox.
func (n *Notifier) buryEntry(ctx context.Context, e outbox.Entry, reason, detail string) error {
	return n.bury(ctx, n.deps.Outbox.Subject(e.Project), 0, e, reason, detail)
}

// close ends a batch: the state says how, then the rows, then the outbox. What
// a kill leaves undone in between is done by settleLeft.
func (d *destination) close(ctx context.Context, b batch, how outcome) error {
	next := d.state
	how.ID, how.From, how.To, how.Digest, how.Time = b.id(), b.from(), b.to(), b.digest, time.Now().UTC()
	if next.Intent != nil {
		how.ID, how.Attempt = next.Intent.ID, next.Intent.Attempt
	}
	for _, one := range b.items {
		if one.event != nil {
			next.Event, next.EventTime = one.event, one.since
		}
	}
	next.Committed, next.Intent, next.Last = how.To, nil, &how
	if err := d.swap(ctx, next); err != nil {
		return err
	}
	if err := d.settle(ctx, b.items, how); err != nil {
		return err
	}
	d.done(b)
	return nil
}

// settle writes the rows of what has ended and takes it off the outbox.
func (d *destination) settle(ctx context.Context, items []item, how outcome) error {
	for attempt := 0; ; attempt++ {
		err := d.n.putRows(ctx, d.rows(items, how))
		if err == nil {
			err = d.n.deps.Outbox.Remove(ctx, d.subject, how.To)
		}
		if err == nil {
			return nil
		}
		d.n.deps.Logger.Warn("what was delivered is not taken off the outbox yet", "project", d.project, "err", err)
		if err := pause(ctx, pauses[min(attempt, len(pauses)-1)]); err != nil {
			return err
		}
	}
}

// settleLeft settles what an earlier owner has ended and not taken off.
func (d *destination) settleLeft(ctx context.Context) error {
	if whole := d.setAside(); !whole || len(d.left) == 0 || d.Last == nil {
		return nil
	}
	items := slices.DeleteFunc(d.left, func(one item) bool { return one.seq < d.Last.From })
	d.left = nil
	if len(items) == 0 {
		return nil
	}
	return d.settle(ctx, items, *d.Last)
}

// recover looks at what an earlier owner left: an attempt without an outcome
// may have arrived.
func (d *destination) recover(ctx context.Context) error {
	if d.Intent == nil || !d.Intent.Open {
		return nil
	}
	in := *d.Intent
	in.Open, in.Unknown = false, true
	d.mu.Lock()
	d.Intent = &in
	d.mu.Unlock()
	return d.tell(ctx, in, outcome{Detail: "interrupted: whether it arrived is not known, it is sent again"})
}

// row is a row of a message of this destination.
func (d *destination) row(id string, how outcome) clickhouse.DeliveryRow {
	return clickhouse.DeliveryRow{
		Project: d.project, Time: how.Time.UnixNano(), Event: id, Destination: how.Destination, Format: how.Format,
		Attempt: uint16(min(how.Attempt, 1<<16-1)), State: clickhouse.DeliveryState(how.State), Status: uint16(how.Status), Answer: how.Answer, Detail: how.Detail,
	}
}

// rows are those of an ended message: its own, and one for each alert that it
// stands for.
func (d *destination) rows(items []item, how outcome) []clickhouse.DeliveryRow {
	rows := []clickhouse.DeliveryRow{d.row(how.ID, how)}
	if !how.Digest {
		return rows
	}
	part := how
	part.State, part.Answer, part.Detail = uint8(clickhouse.DeliveryCoalesced), "", "in "+how.ID
	for _, one := range items {
		rows = append(rows, d.row(one.id, part))
	}
	return rows
}

// message is what a batch says.
func (d *destination) message(ctx context.Context, b batch) (webhook.Message, error) {
	if b.digest {
		return d.digest(b), nil
	}
	one := b.items[0]
	if one.entry != nil {
		return one.entry.Message, nil
	}
	entry, err := d.n.deps.Outbox.Entry(ctx, one.seq)
	return entry.Message, err
}

// digest stands for many: how many they are, and the first of them.
func (d *destination) digest(b batch) webhook.Message {
	m := webhook.Message{ID: b.id(), Kind: "digest", Project: projectName(d.project), Time: b.items[0].since}
	for _, one := range b.items {
		m.Count += one.count
		m.Lines = append(m.Lines, one.title)
	}
	m.Lines = m.Lines[:min(len(m.Lines), 15)]
	m.Title = fmt.Sprintf("%d alerts", m.Count)
	if n := len(b.items); n != m.Count {
		m.Title = fmt.Sprintf("%d alerts in %d messages", m.Count, n)
	}
	return m.Bounded()
}
