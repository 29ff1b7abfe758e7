package stream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/stream/streamtest"
)

// tables are the last stored sequences, by stream.
type tables map[string]uint64

func (s tables) last(_ context.Context, kind record.Kind, shard int, above uint64) (uint64, error) {
	if last := s[stream.Name(kind, shard)]; last > above {
		return last, nil
	}
	return 0, nil
}

var small = stream.Config{Shards: 2, MaxBytes: 16 << 20, DeadMaxBytes: 16 << 20}

func (q *queue) mustContinue(s tables) {
	q.TB.Helper()
	if err := q.tryContinue(small, s.last); err != nil {
		q.TB.Fatal(err)
	}
}

// tryContinue calls Continue, and again where the queue did not answer in time.
func (q *queue) tryContinue(cfg stream.Config, stored stream.Stored) error {
	ctx := q.Ctx()
	return streamtest.Done(ctx, func() error { return stream.Continue(ctx, q.JS, cfg, stored, q.ledger()) })
}

// put publishes one message and returns where it is stored.
func (q *queue) put(p *stream.Publisher, kind record.Kind) stream.Ack {
	q.TB.Helper()
	ack, err := p.Publish(q.Ctx(), stream.Message{Kind: kind, Project: "shop", Parts: [][]byte{[]byte("x")}, Records: 1})
	if err != nil {
		q.TB.Fatal(err)
	}
	return ack
}

func TestContinueStartsALostQueueAfterWhatIsStored(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	have := tables{"LOGS_0": 41_000, "LOGS_1": 7, "EVENTS_0": 12, "EVENTS_1": 3}
	q.mustContinue(have)
	topology := q.Open(small)
	publisher := q.publisher(topology, stream.PublisherConfig{})
	seen := map[string]bool{}
	for i := range 20 {
		kind := []record.Kind{record.KindLog, record.KindEvent}[i%2]
		ack := q.put(publisher, kind)
		if !seen[ack.Stream] && ack.Seq != have[ack.Stream]+1 {
			t.Errorf("the first message of %s has place %d, after %d", ack.Stream, ack.Seq, have[ack.Stream])
		}
		seen[ack.Stream] = true
	}
	for name, last := range have {
		p, err := q.ledger().TakeOver(q.Ctx(), ledger.WriterKey(name))
		if err != nil || p.Committed != last || p.Intent != nil {
			t.Errorf("the writer of %s continues after %d, intent %v (%v), not after %d", name, p.Committed, p.Intent, err, last)
		}
		if !seen[name] {
			continue
		}
		consumer, err := topology.Consume(q.Ctx(), name, last+1, stream.ConsumerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := consumer.Next(q.Ctx()); err != nil || got.Seq != last+1 {
			t.Errorf("the writer of %s reads %d, %v", name, got.Seq, err)
		}
		consumer.Close()
	}
}

func TestContinueChangesNothingWhereNothingIsLost(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	q.mustContinue(tables{})
	for name := range q.JS.StreamNames(q.Ctx()).Name() {
		if strings.HasPrefix(name, "LOGS") || strings.HasPrefix(name, "EVENTS") {
			t.Errorf("%s was made although nothing is stored", name)
		}
	}
	topology := q.Open(small)
	ack := q.put(q.publisher(topology, stream.PublisherConfig{}), record.KindLog)
	q.commit(topology, ack.Stream, ack.Seq)
	before := q.entry(ledger.WriterKey(ack.Stream))
	q.mustContinue(tables{ack.Stream: ack.Seq})
	if after := q.entry(ledger.WriterKey(ack.Stream)); after != before {
		t.Errorf("the ledger was changed from %s to %s", before, after)
	}
}

func (q *queue) entry(key string) string {
	q.TB.Helper()
	entry, err := q.ledger().Bucket().Get(q.Ctx(), key)
	if err != nil {
		q.TB.Fatal(err)
	}
	return string(entry.Value)
}

// A ledger that outlived the queue knows messages that are not stored, and some
// that may be. None of their sequences is used again.
func TestContinueStartsAfterWhatTheLedgerKnows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reader       string
		committed    uint64
		to           uint64 // of an intent
		stored, want uint64
	}{
		"the writer is further than the tables":   {"w.LOGS_0", 50, 0, 40, 50},
		"the tables are further than the writer":  {"w.LOGS_0", 40, 0, 50, 50},
		"an intent is left":                       {"w.LOGS_0", 40, 60, 50, 60},
		"only the ledger knows":                   {"w.LOGS_0", 40, 0, 0, 40},
		"the notifier is further than the writer": {"n.LOGS_0", 70, 0, 50, 70},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t)
			value := fmt.Sprintf(`{"epoch":5,"committed":%d,"committed_at":77,"owner":"lost"}`, c.committed)
			if c.to > 0 {
				value = fmt.Sprintf(`{"epoch":5,"committed":%d,"owner":"lost","intent":{"from":%d,"to":%d,"hash":"x"}}`, c.committed, c.committed+1, c.to)
			}
			kv, err := q.JS.CreateKeyValue(q.Ctx(), jetstream.KeyValueConfig{Bucket: "LEDGER"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := kv.Put(q.Ctx(), c.reader, []byte(value)); err != nil {
				t.Fatal(err)
			}
			q.mustContinue(tables{"LOGS_0": c.stored})
			info, err := q.info(q.Open(small), "LOGS_0")
			if err != nil || info.LastSeq != c.want || info.FirstSeq != c.want+1 {
				t.Errorf("the stream has %d to %d (%v), and is to begin after %d", info.FirstSeq, info.LastSeq, err, c.want)
			}
			var have struct {
				Epoch, Committed uint64
				At               int64 `json:"committed_at"`
				Intent           any
			}
			if err := json.Unmarshal([]byte(q.entry("w.LOGS_0")), &have); err != nil || have.Committed != c.want || have.Intent != nil || have.At != 0 {
				t.Errorf("the ledger has %+v, %v", have, err)
			}
		})
	}
}

// A crash between the ledger and the stream leaves a state that stops the writer
// rather than misleads it, and a second try completes it.
func TestContinueCanBeInterrupted(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	have := tables{"LOGS_0": 100, "EVENTS_1": 9}
	q.mustContinue(have)
	if err := q.JS.DeleteStream(q.Ctx(), "LOGS_0"); err != nil { // as if it had never been made
		t.Fatal(err)
	}
	q.mustContinue(have)
	if info, err := q.info(q.Open(small), "LOGS_0"); err != nil || info.LastSeq != 100 {
		t.Errorf("the stream ends at %d, %v", info.LastSeq, err)
	}
	if err := q.JS.DeleteStream(q.Ctx(), "LOGS_0"); err != nil {
		t.Fatal(err)
	}
	topology := q.Open(small) // somebody makes it from 1
	p, err := q.ledger().TakeOver(q.Ctx(), "w.LOGS_0")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := q.info(topology, "LOGS_0"); err != nil || info.LastSeq >= p.Committed {
		t.Errorf("the stream ends at %d (%v), the ledger is at %d: its writer would not notice", info.LastSeq, err, p.Committed)
	}
}

func TestContinueRefusesAStreamThatIsBehindWhatIsStored(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	q.Open(small)
	err := q.tryContinue(small, tables{"EVENTS_1": 41_000}.last)
	if err == nil || !strings.Contains(err.Error(), "EVENTS_1 ends at 0") || !strings.Contains(err.Error(), "41000") {
		t.Errorf("got %v", err)
	}
}

// Rows that are stored while Continue reads are not ahead of the queue.
func TestContinueAcceptsAWriterThatIsRunning(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	one := small
	one.Shards = 1
	publisher := q.publisher(q.Open(one), stream.PublisherConfig{})
	err := q.tryContinue(one, func(_ context.Context, kind record.Kind, _ int, _ uint64) (uint64, error) {
		return q.put(publisher, kind).Seq, nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestContinueCreatesNothingWhenItIsNotKnownWhatIsStored(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	away := errors.New("no answer")
	err := q.tryContinue(small, func(context.Context, record.Kind, int, uint64) (uint64, error) { return 0, away })
	if !errors.Is(err, away) || !strings.Contains(err.Error(), "LOGS_0") {
		t.Errorf("got %v", err)
	}
	for name := range q.JS.StreamNames(q.Ctx()).Name() {
		if name != "KV_LEDGER" { // the caller's
			t.Errorf("%s was created", name)
		}
	}
	if err := q.tryContinue(stream.Config{Shards: -1}, tables{}.last); err == nil {
		t.Error("a bad setting was accepted")
	}
}

// The stream keeps its sequences when its settings change later, and after a purge
// of everything that is committed.
func TestContinuedStreamKeepsItsSequences(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	q.mustContinue(tables{"LOGS_0": 500, "LOGS_1": 500})
	bigger := small
	bigger.MaxBytes, bigger.ReplayAge, bigger.ReplayBytes = 32<<20, time.Nanosecond, 1
	topology := q.Open(bigger)
	ack := q.put(q.publisher(topology, stream.PublisherConfig{}), record.KindLog)
	q.commit(topology, ack.Stream, ack.Seq)
	if n, err := q.purge(topology, ack.Stream, ack.Seq+1); err != nil || n != 1 {
		t.Errorf("%d messages were purged, %v", n, err)
	}
	q.NC.Close()
	q.Stop()
	q.Start()
	q.NC, q.JS = q.Connect()
	if info, err := q.info(q.Open(small), ack.Stream); err != nil || info.LastSeq != 501 || info.FirstSeq != 502 {
		t.Errorf("the stream has %d to %d, %v", info.FirstSeq, info.LastSeq, err)
	}
}
