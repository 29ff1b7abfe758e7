package notify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/outbox"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/webhook"
)

// commitEvery is how often the position is written where nothing had to be
// put into the outbox: the writer keeps what the position has not passed.
const commitEvery = 2 * time.Second

// intake moves the events of one shard that ask for it into the outbox. It
// reads quiet ones too, and passes over them without a look inside, since only
// so its position moves on and the stream may be purged.
type intake struct {
	n        *Notifier
	shard    int
	stream   string
	key      string
	position ledger.Position
	read     stream.Delivery // the newest message dealt with
	written  time.Time       // when the position was
	taken    time.Time       // when the message in hand came here

	reader record.Reader
	event  record.Event
}

func newIntake(n *Notifier, shard int) *intake {
	name := stream.Name(record.KindEvent, shard)
	return &intake{n: n, shard: shard, stream: name, key: ledger.NotifierKey(name)}
}

func (in *intake) run(ctx context.Context) (err error) {
	if in.position, err = in.n.deps.Ledger.TakeOver(ctx, in.key); err != nil {
		return err
	}
	from, err := in.open(ctx)
	if err != nil {
		return err
	}
	defer from.Close()
	in.read.Seq = in.position.Committed
	for {
		delivery, err := in.next(ctx, from)
		if err != nil {
			return err
		}
		put := 0
		if delivery.Seq != 0 {
			if put, err = in.take(ctx, delivery); err != nil {
				return err
			}
			in.read = delivery
		}
		if err := in.commit(ctx, put > 0); err != nil {
			return err
		}
	}
}

// open reads on from the position. A stream that is behind it was lost or
// restored: that is for a person to look at. One whose beginning is gone was
// purged before there was a notifier.
func (in *intake) open(ctx context.Context) (*stream.Consumer, error) {
	info, err := in.n.deps.Queue.Info(ctx, in.stream)
	if err != nil {
		return nil, err
	}
	if info.LastSeq < in.position.Committed {
		return nil, fmt.Errorf("stream %s ends at %d, and %d was read already: it was lost or restored from an older copy", in.stream, info.LastSeq, in.position.Committed)
	}
	from := in.position.Committed + 1
	if from < info.FirstSeq {
		from = info.FirstSeq
	}
	return in.n.deps.Queue.Consume(ctx, in.stream, from, stream.ConsumerConfig{MaxMessages: 256, MaxBytes: 8 << 20})
}

// next waits for a message; an empty one means that the position is due.
func (in *intake) next(ctx context.Context, from *stream.Consumer) (stream.Delivery, error) {
	if in.read.Seq == in.position.Committed {
		return from.Next(ctx)
	}
	due, cancel := context.WithDeadline(ctx, in.written.Add(commitEvery))
	defer cancel()
	delivery, err := from.Next(due)
	if err != nil && due.Err() != nil && ctx.Err() == nil {
		return stream.Delivery{}, nil
	}
	return delivery, err
}

func (in *intake) commit(ctx context.Context, now bool) error {
	if in.read.Seq == in.position.Committed || !now && time.Since(in.written) < commitEvery {
		return nil
	}
	position, err := in.n.deps.Ledger.Commit(ctx, in.key, in.position, in.read.Seq, in.read.Time)
	if err != nil {
		return err
	}
	in.position, in.written = position, time.Now()
	return nil
}

// take puts a message's events into the outbox, and tells how many.
func (in *intake) take(ctx context.Context, delivery stream.Delivery) (put int, err error) {
	if delivery.Subject != stream.NotifySubject(in.shard) {
		return 0, nil
	}
	in.reader.Reset(delivery.Data)
	in.taken = time.Now()
	idx := uint32(0)
	var rows []clickhouse.DeliveryRow
	for {
		section, err := in.reader.NextSection()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil { // the writer puts the message among the dead letters
			in.n.deps.Logger.Warn("message not read", "stream", in.stream, "seq", delivery.Seq, "err", err)
			break
		}
		for {
			ok, err := section.NextEvent(&in.event)
			if err != nil || !ok {
				break
			}
			place := outbox.Place{Shard: in.shard, Seq: delivery.Seq, Idx: idx}
			idx++
			if !in.event.Notify {
				continue
			}
			row, err := in.putEvent(ctx, strings.Clone(section.Project), place, delivery.Time)
			if err != nil {
				return len(rows), err
			}
			if row != nil {
				rows = append(rows, *row)
			}
		}
	}
	return len(rows), in.n.putRows(ctx, rows)
}

// putEvent has one event wait for its destination, if its project has one. The
// row says so.
func (in *intake) putEvent(ctx context.Context, projectID string, at outbox.Place, received time.Time) (*clickhouse.DeliveryRow, error) {
	alerts, err := in.n.settings.since(ctx, projectID, in.taken)
	switch {
	case errors.Is(err, project.ErrNotFound), err == nil && !alerts.WebhookURL.IsSet():
		return nil, nil
	case err != nil && !errors.Is(err, project.ErrNoKey):
		return nil, err
	}
	return in.n.put(ctx, outbox.Entry{
		ID: eventID(at), Project: projectID, Event: &at, Since: received, Message: in.n.eventMessage(projectID, eventID(at), &in.event),
	}, alerts)
}

// eventID is the event's own id, as the API shows it.
func eventID(at outbox.Place) string {
	return record.RowID{Shard: uint8(at.Shard), Seq: at.Seq, Idx: at.Idx}.String()
}

// put has an alert wait. One that finds no room becomes a dead letter at once.
func (n *Notifier) put(ctx context.Context, e outbox.Entry, alerts project.Alerts) (*clickhouse.DeliveryRow, error) {
	row := &clickhouse.DeliveryRow{
		Project: e.Project, Time: e.Since.UnixNano(), Event: e.ID, Destination: shown(alerts),
		Format: string(webhook.Resolve(webhook.Format(alerts.Format), alerts.WebhookURL.Reveal())), State: clickhouse.DeliveryQueued,
	}
	err := n.deps.Outbox.Put(ctx, e)
	if errors.Is(err, outbox.ErrFull) {
		row.State, row.Detail = clickhouse.DeliveryFailed, outbox.ErrFull.Error()
		return row, n.buryEntry(ctx, e, reasonFull, err.Error())
	}
	if err == nil {
		n.metrics.queued.WithLabelValues(e.Message.Kind).Inc()
	}
	return row, err
}

// eventMessage is what people are told of an event. It copies what it takes.
func (n *Notifier) eventMessage(projectID, id string, e *record.Event) webhook.Message {
	m := webhook.Message{
		ID: id, Kind: "event", Project: projectName(projectID), Source: "#" + e.Channel, Title: strings.Clone(e.Title),
		Text: e.Description, Icon: strings.Clone(e.Icon), Time: time.Unix(0, e.Timestamp), Link: n.link(projectID, "events", id),
	}
	for _, tag := range e.Tags {
		m.Fields = append(m.Fields, webhook.Field{Key: strings.Clone(tag.Key), Value: strings.Clone(tag.Value)})
	}
	m = m.Bounded()
	m.Text = strings.Clone(m.Text)
	return m
}

// link is where a record can be looked at; "" where nobody said where that is.
func (n *Notifier) link(projectID, kind, id string) string {
	if n.cfg.PublicURL == "" {
		return ""
	}
	return strings.TrimSuffix(n.cfg.PublicURL, "/") + "/projects/" + projectName(projectID) + "/" + kind + "?q=" + url.QueryEscape("id:"+id)
}
