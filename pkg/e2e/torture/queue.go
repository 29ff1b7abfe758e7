//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

// searchTimeout bounds the search of one stream for lost records.
const searchTimeout = 20 * time.Second

// queue is the harness's own connection to the queue, without a proxy.
type queue struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	topology *stream.Topology
	ledger   *ledger.Ledger
}

func openQueue(ctx context.Context, addr string) (*queue, error) {
	nc, js, err := stream.Connect(ctx, "nats://"+addr, stream.ConnectConfig{Name: "torture"})
	if err != nil {
		return nil, err
	}
	topology, err := stream.Open(ctx, js, stream.Config{})
	if err != nil {
		nc.Close()
		return nil, err
	}
	positions, err := ledger.Open(ctx, js, 1, nil)
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &queue{nc: nc, js: js, topology: topology, ledger: positions}, nil
}

func (q *queue) close() { q.nc.Close() }

// left describes what the writers have not committed yet; it is empty if they have
// committed everything.
func (q *queue) left(ctx context.Context, kinds []record.Kind) (string, error) {
	positions, err := q.ledger.Positions(ctx)
	if err != nil {
		return "", err
	}
	var behind []string
	for _, kind := range kinds {
		for _, name := range q.topology.Streams(kind) {
			info, err := q.topology.Info(ctx, name)
			if err != nil {
				return "", err
			}
			if p := positions[ledger.WriterKey(name)]; p.Committed < info.LastSeq || p.Intent != nil {
				behind = append(behind, fmt.Sprintf("%s: %d of %d committed", name, p.Committed, info.LastSeq))
			}
		}
	}
	return strings.Join(behind, ", "), nil
}

// behind returns how many messages the writers have not committed yet.
func (q *queue) behind(ctx context.Context, kinds []record.Kind) (messages uint64, err error) {
	positions, err := q.ledger.Positions(ctx)
	if err != nil {
		return 0, err
	}
	for _, kind := range kinds {
		for _, name := range q.topology.Streams(kind) {
			info, err := q.topology.Info(ctx, name)
			if err != nil {
				return 0, err
			}
			messages += info.LastSeq - min(info.LastSeq, positions[ledger.WriterKey(name)].Committed)
		}
	}
	return messages, nil
}

// drain waits until everything is committed.
func (q *queue) drain(ctx context.Context, within time.Duration, kinds []record.Kind) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	last := "the queue was not reached"
	for {
		behind, err := q.left(ctx, kinds)
		switch {
		case err == nil && behind == "":
			return nil
		case err == nil:
			last = behind
		}
		if pause(ctx, 200*time.Millisecond) != nil {
			return fmt.Errorf("the writers have not stored everything within %s: %s", within, last)
		}
	}
}

// find searches records on the queue, which keeps messages for a while after they
// are stored. It shows whether the queue or the writer lost them.
func (q *queue) find(ctx context.Context, wanted []identity) map[identity]string {
	found := map[identity]string{}
	for _, name := range append(q.topology.Streams(record.KindLog), q.topology.Streams(record.KindEvent)...) {
		if err := q.search(ctx, name, wanted, found); err != nil {
			found[identity{-1, len(found)}] = fmt.Sprintf("%s was not searched: %v", name, err)
		}
	}
	return found
}

func (q *queue) search(ctx context.Context, name string, wanted []identity, found map[identity]string) error {
	ctx, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	info, err := q.topology.Info(ctx, name)
	if err != nil || info.Messages == 0 {
		return err
	}
	consumer, err := q.topology.Consume(ctx, name, info.FirstSeq, stream.ConsumerConfig{})
	if err != nil {
		return err
	}
	defer consumer.Close()
	var reader record.Reader
	for {
		delivery, err := consumer.Next(ctx)
		if err != nil {
			return err
		}
		for _, text := range texts(&reader, delivery.Data) {
			if id, ok := parseText(text); ok && slices.Contains(wanted, id) {
				found[id] = fmt.Sprintf("on the queue as %s %d, stored there at %s", name, delivery.Seq, delivery.Time.Format("15:04:05.000"))
			}
		}
		if delivery.Seq >= info.LastSeq {
			return nil
		}
	}
}

// texts returns the texts of a message's records. Poison has none.
func texts(reader *record.Reader, message []byte) (all []string) {
	reader.Reset(message)
	var log record.Log
	var event record.Event
	for {
		section, err := reader.NextSection()
		if err != nil {
			return all
		}
		for more := true; more && err == nil; {
			switch section.Kind {
			case record.KindLog:
				more, err = section.NextLog(&log)
				all = append(all, strings.Clone(log.Data))
			case record.KindEvent:
				more, err = section.NextEvent(&event)
				all = append(all, strings.Clone(event.Title))
			default:
				more = false
			}
		}
	}
}
