package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/outbox"
	"github.com/logboom/logboom/pkg/stream"
)

const (
	// maxMessageRows bounds the rows of one message: 500 of them stay well below
	// the queue's smallest limit of 1 MB.
	maxMessageRows = 500
	// maxInsertRows is how many rows make an insert due at once.
	maxInsertRows = 5000
)

// publishRows publishes rows of deliveries to the queue from which the rowWriter
// inserts them.
func (n *Notifier) publishRows(ctx context.Context, rows []clickhouse.DeliveryRow) error {
	for len(rows) > 0 {
		part := rows[:min(len(rows), maxMessageRows)]
		rows = rows[len(part):]
		data, err := json.Marshal(part)
		if err != nil {
			return fmt.Errorf("rows of deliveries: %w", err)
		}
		if err := n.deps.Outbox.PublishRows(ctx, n.deps.Outbox.Partition(part[0].Project), data); err != nil {
			return err
		}
	}
	return nil
}

// rowWriter inserts the rows of one partition into ClickHouse. A kill between an
// insert and the removal from the queue inserts rows twice; queries count each
// row once.
type rowWriter struct {
	n         *Notifier
	partition int
	rows      []clickhouse.DeliveryRow
	from, to  uint64 // sequences of the messages that hold the rows
	due       time.Time
}

func (w *rowWriter) run(ctx context.Context) error {
	consumer, err := w.n.deps.Queue.Consume(ctx, outbox.RowsStream, 0, stream.ConsumerConfig{Subject: outbox.RowsSubject(w.partition), MaxMessages: 64})
	if err != nil {
		return err
	}
	defer consumer.Close()
	for {
		if err := w.gather(ctx, consumer); err != nil {
			return err
		}
		if err := w.insert(ctx); err != nil {
			return err
		}
	}
}

// gather reads messages until an insert is due.
func (w *rowWriter) gather(ctx context.Context, consumer *stream.Consumer) error {
	w.rows, w.from, w.to = w.rows[:0], 0, 0
	for len(w.rows) < maxInsertRows {
		wait, cancel := ctx, context.CancelFunc(func() {})
		if w.to != 0 {
			wait, cancel = context.WithDeadline(ctx, w.due)
		}
		delivery, err := consumer.Next(wait)
		due := wait.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err != nil && due:
			return nil
		case err != nil:
			return err
		}
		if w.to == 0 {
			w.from, w.due = delivery.Seq, time.Now().Add(w.n.timing.flushEvery)
		}
		w.to = delivery.Seq
		var rows []clickhouse.DeliveryRow
		if err := json.Unmarshal(delivery.Data, &rows); err != nil {
			w.n.deps.Logger.Error("rows of deliveries not decoded", "seq", delivery.Seq, "err", err)
			continue
		}
		w.rows = append(w.rows, rows...)
	}
	return nil
}

// insert inserts the gathered rows, retrying until it succeeds, and removes them
// from the queue.
func (w *rowWriter) insert(ctx context.Context) error {
	token := fmt.Sprintf("deliveries-%d-%d-%d", w.partition, w.from, w.to)
	logged := false
	err := retry(ctx, func() error { return w.n.deps.Tables.InsertDeliveries(ctx, token, w.rows) }, func(err error) {
		w.n.metrics.rowFailures.Inc()
		if !logged {
			logged = true
			w.n.deps.Logger.Warn("rows of deliveries not inserted; retrying", "rows", len(w.rows), "err", err)
		}
	})
	if err != nil {
		return err
	}
	w.n.metrics.rows.Add(float64(len(w.rows)))
	return w.n.deps.Outbox.RemoveRows(ctx, w.partition, w.to)
}
