//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

// control is a writer with a known flaw, which the oracle must find.
type control string

const (
	// naive inserts under a random token and commits afterwards: rows are inserted
	// again if the commit fails.
	naive control = "naive"
	// byToken inserts under the token first-last and trusts it: after a restart the
	// batches differ, and a token may be remembered although the rows are not there.
	byToken control = "token"
)

// controlMode is the argument that makes this program such a writer.
const controlMode = "control"

const (
	controlRows = 5000
	controlAge  = 300 * time.Millisecond
)

// faultsOf returns the faults at which a control is known to fail.
func faultsOf(c control) string {
	if c == naive {
		return "failpoint-after-insert-kill,kill-writer,mute-tables"
	}
	return "failpoint-after-insert-kill,kill-writer,errors-rename"
}

// controlWriter is the flawed writer of all shards of logs.
type controlWriter struct {
	control  control
	topology *stream.Topology
	ledger   *ledger.Ledger
	client   *clickhouse.Client
	log      *slog.Logger
	die      func() // called after each insert
}

func runControl(c control) error {
	ctx, forget := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer forget()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	nc, js, err := stream.Connect(ctx, os.Getenv("LOGBOOM_NATS_URL"), stream.ConnectConfig{Name: "control", Logger: log})
	if err != nil {
		return err
	}
	defer nc.Close()
	topology, err := stream.Open(ctx, js, stream.Config{Logger: log})
	if err != nil {
		return err
	}
	positions, err := ledger.Open(ctx, js, 1, log)
	if err != nil {
		return err
	}
	client, err := clickhouse.Open(clickhouse.Config{URL: os.Getenv("LOGBOOM_CLICKHOUSE_URL")})
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Migrate(ctx); err != nil {
		return err
	}
	w := &controlWriter{control: c, topology: topology, ledger: positions, client: client, log: log, die: dieAfter(os.Getenv(failpointVariable))}
	log.Info(readyMark)
	var group errgroup.Group
	for shard := range topology.Shards() {
		group.Go(func() error { return w.keep(ctx, shard) })
	}
	return group.Wait()
}

// dieAfter parses the failpoint after-insert as the real writer does.
func dieAfter(text string) func() {
	n, err := strconv.Atoi(strings.TrimPrefix(text, "after-insert:kill:"))
	if err != nil {
		return func() {}
	}
	left := make(chan struct{}, n) // one for each insert that it survives
	return func() {
		select {
		case left <- struct{}{}:
		default:
			fmt.Fprintln(os.Stderr, failpointMark+"after-insert")
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // nothing after it runs
		}
	}
}

// keep stores a shard, and starts again after any error.
func (w *controlWriter) keep(ctx context.Context, shard int) error {
	for ctx.Err() == nil {
		err := w.move(ctx, uint8(shard))
		w.log.Warn("shard starts over", "shard", shard, "err", err)
		_ = pause(ctx, retryPause)
	}
	return nil
}

func (w *controlWriter) move(ctx context.Context, shard uint8) error {
	name := stream.Name(record.KindLog, int(shard))
	reader := ledger.WriterKey(name)
	position, err := w.ledger.TakeOver(ctx, reader)
	if err != nil {
		return err
	}
	consumer, err := w.topology.Consume(ctx, name, position.Committed+1, stream.ConsumerConfig{})
	if err != nil {
		return err
	}
	defer consumer.Close()
	for {
		block, last, err := gather(ctx, consumer, shard)
		if err != nil {
			return err
		}
		if err := w.insert(ctx, name, position.Committed+1, last, block); err != nil {
			return err
		}
		w.die()
		if position, err = w.ledger.Commit(ctx, reader, position, last, time.Time{}); err != nil {
			return err
		}
	}
}

// insert retries until ClickHouse acknowledges the rows.
func (w *controlWriter) insert(ctx context.Context, name string, from, to uint64, block *clickhouse.LogBlock) error {
	for {
		id := rand.Text()
		if w.control == byToken {
			id = fmt.Sprintf("%s-%d-%d", name, from, to)
		}
		err := w.client.InsertLogs(ctx, id, block)
		if err == nil {
			return nil
		}
		w.log.Warn("insert failed", "stream", name, "seq", to, "err", err)
		if err := pause(ctx, retryPause); err != nil {
			return err
		}
	}
}

// gather waits for a message and adds those that follow within a moment.
func gather(ctx context.Context, consumer *stream.Consumer, shard uint8) (block *clickhouse.LogBlock, last uint64, err error) {
	block = &clickhouse.LogBlock{}
	var reader record.Reader
	delivery, err := consumer.Next(ctx)
	if err != nil {
		return nil, 0, err
	}
	soon, cancel := context.WithTimeout(ctx, controlAge)
	defer cancel()
	for err == nil {
		last = delivery.Seq
		err = eachLog(&reader, delivery, shard, func(row clickhouse.Row, log *record.Log) { block.Append(row, log) })
		if err != nil || block.Rows() >= controlRows {
			return block, last, err
		}
		delivery, err = consumer.Next(soon)
	}
	if soon.Err() != nil && ctx.Err() == nil {
		err = nil
	}
	return block, last, err
}

// eachLog calls the function with each log of a message and its position.
func eachLog(reader *record.Reader, delivery stream.Delivery, shard uint8, call func(clickhouse.Row, *record.Log)) error {
	reader.Reset(delivery.Data)
	at := clickhouse.Row{Shard: shard, Seq: delivery.Seq, Received: delivery.Time.UnixNano()}
	var log record.Log
	for {
		section, err := reader.NextSection()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if section.Kind != record.KindLog {
			continue // counts of refused records, which this writer does not store
		}
		at.Project, at.RetentionDays = section.Project, section.RetentionDays
		for {
			ok, err := section.NextLog(&log)
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			call(at, &log)
			at.Idx++
		}
	}
}
