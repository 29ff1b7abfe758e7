package notify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/outbox"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

// commitEvery is how often the position is committed if no alert was published.
// The stream keeps the messages behind the position.
const commitEvery = 2 * time.Second

// eventReader reads the events of one shard and publishes the alerts of those
// that ask for one to the outbox. It also reads the other messages, without
// decoding them, so that its position moves on and the stream can be purged.
type eventReader struct {
	n         *Notifier
	shard     int
	stream    string
	key       string // of the ledger
	position  ledger.Position
	last      stream.Delivery // the newest message that was handled
	committed time.Time       // when the position was committed
	received  time.Time       // when the current message was received

	reader record.Reader
	event  record.Event
}

func newEventReader(n *Notifier, shard int) *eventReader {
	name := stream.Name(record.KindEvent, shard)
	return &eventReader{n: n, shard: shard, stream: name, key: ledger.NotifierKey(name)}
}

func (r *eventReader) run(ctx context.Context) (err error) {
	if r.position, err = r.n.deps.Ledger.TakeOver(ctx, r.key); err != nil {
		return err
	}
	consumer, err := r.consume(ctx)
	if err != nil {
		return err
	}
	defer consumer.Close()
	r.last.Seq = r.position.Committed
	for {
		delivery, err := r.next(ctx, consumer)
		if err != nil {
			return err
		}
		published := 0
		if delivery.Seq != 0 {
			if published, err = r.handle(ctx, delivery); err != nil {
				return err
			}
			r.last = delivery
		}
		if err := r.commit(ctx, published > 0); err != nil {
			return err
		}
	}
}

// consume opens the stream behind the position. If the stream ends before the
// position, it was lost or restored, and a person must decide. If its beginning
// is gone, it was purged before there was a notifier.
func (r *eventReader) consume(ctx context.Context) (*stream.Consumer, error) {
	info, err := r.n.deps.Queue.Info(ctx, r.stream)
	if err != nil {
		return nil, err
	}
	if info.LastSeq < r.position.Committed {
		return nil, fmt.Errorf("stream %s ends at %d, but the notifier has read it up to %d: the stream was lost or restored from an older copy", r.stream, info.LastSeq, r.position.Committed)
	}
	return r.n.deps.Queue.Consume(ctx, r.stream, max(r.position.Committed+1, info.FirstSeq), stream.ConsumerConfig{MaxMessages: 256, MaxBytes: 8 << 20})
}

// next waits for a message. It returns an empty one when the position is due.
func (r *eventReader) next(ctx context.Context, consumer *stream.Consumer) (stream.Delivery, error) {
	if r.last.Seq == r.position.Committed {
		return consumer.Next(ctx)
	}
	due, cancel := context.WithDeadline(ctx, r.committed.Add(commitEvery))
	defer cancel()
	delivery, err := consumer.Next(due)
	if err != nil && due.Err() != nil && ctx.Err() == nil {
		return stream.Delivery{}, nil
	}
	return delivery, err
}

func (r *eventReader) commit(ctx context.Context, now bool) error {
	if r.last.Seq == r.position.Committed || !now && time.Since(r.committed) < commitEvery {
		return nil
	}
	position, err := r.n.deps.Ledger.Commit(ctx, r.key, r.position, r.last.Seq, r.last.Time)
	if err != nil {
		return err
	}
	r.position, r.committed = position, time.Now()
	return nil
}

// handle publishes the alerts of a message and returns their number.
func (r *eventReader) handle(ctx context.Context, delivery stream.Delivery) (published int, err error) {
	if delivery.Subject != stream.NotifySubject(r.shard) {
		return 0, nil
	}
	r.reader.Reset(delivery.Data)
	r.received = time.Now()
	idx := uint32(0)
	var rows []clickhouse.DeliveryRow
	for {
		section, err := r.reader.NextSection()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil { // the writer dead-letters the message
			r.n.deps.Logger.Warn("message not decoded", "stream", r.stream, "seq", delivery.Seq, "err", err)
			break
		}
		for {
			ok, err := section.NextEvent(&r.event)
			if err != nil || !ok {
				break
			}
			at := outbox.EventPosition{Shard: r.shard, Seq: delivery.Seq, Idx: idx}
			idx++
			if !r.event.Notify {
				continue
			}
			row, err := r.publish(ctx, strings.Clone(section.Project), at, delivery.Time)
			if err != nil {
				return len(rows), err
			}
			if row != nil {
				rows = append(rows, *row)
			}
		}
	}
	return len(rows), r.n.publishRows(ctx, rows)
}

// publish publishes the alert of the current event, if the project's alerts are
// on, and returns its row.
func (r *eventReader) publish(ctx context.Context, projectID string, at outbox.EventPosition, stored time.Time) (*clickhouse.DeliveryRow, error) {
	alerts, err := r.n.alerts.loadSince(ctx, projectID, r.received)
	switch {
	case errors.Is(err, project.ErrNotFound), err == nil && !alerts.WebhookURL.IsSet():
		return nil, nil
	case err != nil && !errors.Is(err, project.ErrNoKey):
		return nil, err
	}
	id := eventID(at)
	return r.n.publish(ctx, outbox.Entry{ID: id, Project: projectID, Event: &at, Since: stored, Message: r.n.eventMessage(projectID, id, &r.event)}, alerts)
}

// publish publishes an alert to the outbox and returns its row. If the outbox is
// full, the alert becomes a dead letter.
func (n *Notifier) publish(ctx context.Context, e outbox.Entry, alerts project.Alerts) (*clickhouse.DeliveryRow, error) {
	row := &clickhouse.DeliveryRow{
		Project: e.Project, Time: e.Since.UnixNano(), Event: e.ID, Destination: redacted(alerts),
		Format: string(target(e.Project, alerts).Format), State: clickhouse.DeliveryQueued,
	}
	err := n.deps.Outbox.Publish(ctx, e)
	if errors.Is(err, outbox.ErrFull) {
		row.State, row.Detail = clickhouse.DeliveryFailed, outbox.ErrFull.Error()
		return row, n.deadLetter(ctx, n.deps.Outbox.Subject(e.Project), 0, e, reasonFull, err.Error())
	}
	if err == nil {
		n.metrics.queued.WithLabelValues(e.Message.Kind).Inc()
	}
	return row, err
}

// publishWithRow publishes an alert and its row.
func (n *Notifier) publishWithRow(ctx context.Context, e outbox.Entry, alerts project.Alerts) error {
	row, err := n.publish(ctx, e, alerts)
	if err != nil {
		return err
	}
	return n.publishRows(ctx, []clickhouse.DeliveryRow{*row})
}
