package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/outbox"
	"github.com/logboom/logboom/pkg/stream"
)

const (
	// maxRowsMessage bounds the rows of one message: 500 of them stay well
	// below the queue's smallest limit of 1 MB.
	maxRowsMessage = 500
	maxFlushRows   = 5000
)

// putRows keeps rows until the recorder has stored them.
func (n *Notifier) putRows(ctx context.Context, rows []clickhouse.DeliveryRow) error {
	for len(rows) > 0 {
		part := rows[:min(len(rows), maxRowsMessage)]
		rows = rows[len(part):]
		data, err := json.Marshal(part)
		if err != nil {
			return fmt.Errorf("rows of alerts: %w", err)
		}
		if err := n.deps.Outbox.PutRows(ctx, n.deps.Outbox.Partition(part[0].Project), data); err != nil {
			return err
		}
	}
	return nil
}

// recorder stores the rows of one partition. Rows may be stored twice, where it
// ends between an insert and the removal: who reads them counts each once.
type recorder struct {
	n         *Notifier
	partition int
	rows      []clickhouse.DeliveryRow
	from, to  uint64
	due       time.Time
}

func newRecorder(n *Notifier, partition int) *recorder { return &recorder{n: n, partition: partition} }

func (r *recorder) run(ctx context.Context) error {
	from, err := r.n.deps.Queue.Consume(ctx, outbox.RowsStream, 0, stream.ConsumerConfig{Subject: outbox.RowsSubject(r.partition), MaxMessages: 64})
	if err != nil {
		return err
	}
	defer from.Close()
	for {
		if err := r.gather(ctx, from); err != nil {
			return err
		}
		if err := r.flush(ctx); err != nil {
			return err
		}
	}
}

// gather takes messages until the rows in hand are to be stored.
func (r *recorder) gather(ctx context.Context, from *stream.Consumer) error {
	r.rows, r.from, r.to = r.rows[:0], 0, 0
	for len(r.rows) < maxFlushRows {
		wait, cancel := ctx, context.CancelFunc(func() {})
		if r.to != 0 {
			wait, cancel = context.WithDeadline(ctx, r.due)
		}
		delivery, err := from.Next(wait)
		late := wait.Err() != nil
		cancel()
		switch {
		case err != nil && late && ctx.Err() == nil:
			return nil
		case err != nil:
			return err
		}
		r.add(delivery)
	}
	return nil
}

func (r *recorder) add(delivery stream.Delivery) {
	if r.to == 0 {
		r.from, r.due = delivery.Seq, time.Now().Add(r.n.cfg.FlushEvery)
	}
	r.to = delivery.Seq
	var rows []clickhouse.DeliveryRow
	if err := json.Unmarshal(delivery.Data, &rows); err != nil {
		r.n.deps.Logger.Error("rows of alerts not read", "seq", delivery.Seq, "err", err)
		return
	}
	r.rows = append(r.rows, rows...)
}

// flush stores the rows in hand, and tries until it has.
func (r *recorder) flush(ctx context.Context) error {
	token := fmt.Sprintf("deliveries-%d-%d-%d", r.partition, r.from, r.to)
	for attempt := 0; ; attempt++ {
		err := r.n.deps.Tables.InsertDeliveries(ctx, token, r.rows)
		if err == nil {
			break
		}
		r.n.metrics.rowFailures.Inc()
		if attempt == len(pauses)-1 {
			r.n.deps.Logger.Warn("rows of alerts not stored; they are kept", "rows", len(r.rows), "err", err)
		}
		if err := pause(ctx, pauses[min(attempt, len(pauses)-1)]); err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
	}
	r.n.metrics.rows.Add(float64(len(r.rows)))
	return r.n.deps.Outbox.RemoveRows(ctx, r.partition, r.to)
}
