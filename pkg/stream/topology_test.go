package stream_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/stream/streamtest"
)

func TestOpenCreatesStreamsThatDropNothing(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.Open(stream.Config{Shards: 2, MaxBytes: 64 << 20})

	want := []string{"DEAD", "EVENTS_0", "EVENTS_1", "LOGS_0", "LOGS_1"}
	var have []string
	for name := range q.JS.StreamNames(q.Ctx()).Name() {
		have = append(have, name)
	}
	if slices.Sort(have); !slices.Equal(have, want) {
		t.Fatalf("streams are %v, want %v", have, want)
	}
	for _, name := range append(topology.Streams(record.KindLog), topology.Streams(record.KindEvent)...) {
		s, err := q.JS.Stream(q.Ctx(), name)
		if err != nil {
			t.Fatal(err)
		}
		cfg := s.CachedInfo().Config
		if cfg.Discard != jetstream.DiscardNew || cfg.Retention != jetstream.LimitsPolicy || cfg.Storage != jetstream.FileStorage ||
			cfg.MaxAge != 0 || cfg.MaxBytes != 64<<20 || cfg.Duplicates != 2*time.Minute ||
			!cfg.DenyDelete || cfg.DenyPurge || !cfg.AllowAtomicPublish || !cfg.AllowDirect {
			t.Errorf("%s has %+v", name, cfg)
		}
	}
}

func TestOpenKeepsTheExistingNumberOfShards(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	q.Open(stream.Config{Shards: 3})
	if got := q.Open(stream.Config{}).Shards(); got != 3 {
		t.Errorf("got %d shards, want 3", got)
	}
	_, err := stream.Open(q.Ctx(), q.JS, stream.Config{Shards: 5})
	if err == nil || !strings.Contains(err.Error(), "5 shards") || !strings.Contains(err.Error(), "with 3") {
		t.Errorf("got %v, want an error naming 5 and 3", err)
	}
}

func TestOpenFinishesWhatAnotherProcessBegan(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.Open(stream.Config{Shards: 4})
	for _, name := range []string{"LOGS_2", "EVENTS_0", "DEAD"} {
		if err := q.JS.DeleteStream(q.Ctx(), name); err != nil {
			t.Fatal(err)
		}
	}
	if got := q.Open(stream.Config{}).Shards(); got != topology.Shards() {
		t.Errorf("got %d shards, want %d", got, topology.Shards())
	}
	if _, err := q.JS.Stream(q.Ctx(), "LOGS_2"); err != nil {
		t.Error(err)
	}
}

func TestOpenByManyProcessesAtOnceSucceeds(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	errs := make([]error, 8)
	var running sync.WaitGroup
	for i := range errs {
		_, js := q.Connect()
		running.Go(func() {
			_, errs[i] = stream.Open(q.Ctx(), js, stream.Config{MaxBytes: 8 << 20, DeadMaxBytes: 8 << 20})
		})
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefusesAStreamWithoutTheGuarantees(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	q.Open(stream.Config{Shards: 1})
	s, err := q.JS.Stream(q.Ctx(), "EVENTS_0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	cfg.Discard = jetstream.DiscardOld
	if _, err := q.JS.UpdateStream(q.Ctx(), cfg); err != nil {
		t.Fatal(err)
	}
	_, err = stream.Open(q.Ctx(), q.JS, stream.Config{})
	if err == nil || !strings.Contains(err.Error(), "EVENTS_0: discard") {
		t.Errorf("got %v, want an error naming the stream and its discard policy", err)
	}
}

func TestOpenAppliesALimitThatWasChanged(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	q.Open(stream.Config{Shards: 1, MaxBytes: 16 << 20})
	for _, given := range []int64{32 << 20, 0} { // 0 takes what is there
		topology, err := stream.Open(q.Ctx(), q.JS, stream.Config{MaxBytes: given})
		if err != nil {
			t.Fatal(err)
		}
		info, err := q.info(topology, "LOGS_0")
		if err != nil || info.MaxBytes != 32<<20 {
			t.Errorf("given %d: limit %d, %v; want 32 MiB", given, info.MaxBytes, err)
		}
	}
}

func TestConfigNamesTheBadSetting(t *testing.T) {
	t.Parallel()
	for field, cfg := range map[string]stream.Config{
		"Shards":       {Shards: 257},
		"Replicas":     {Replicas: 2},
		"MaxBytes":     {MaxBytes: 10},
		"DeadMaxBytes": {DeadMaxBytes: 10},
		"ReplayAge":    {ReplayAge: -1},
		"ReplayBytes":  {ReplayBytes: -1},
	} {
		if err := cfg.Validate(); err == nil || !strings.HasPrefix(err.Error(), "setting "+field+" is ") {
			t.Errorf("%s: got %v", field, err)
		}
	}
}

func (q *queue) healthy(topology *stream.Topology) error {
	ctx := q.Ctx()
	return streamtest.Done(ctx, func() error { return topology.Healthy(ctx) })
}

func TestHealthyReportsAFullStreamAndALostQueue(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.Open(stream.Config{Shards: 1, MaxBytes: 1 << 20})
	if err := q.healthy(topology); err != nil {
		t.Fatal(err)
	}
	p := q.publisher(topology, stream.PublisherConfig{})
	for {
		m := stream.Message{Kind: record.KindEvent, Project: "shop", Parts: [][]byte{make([]byte, 8<<10)}}
		if _, err := p.Publish(q.Ctx(), m); err != nil {
			break
		}
	}
	if err := q.healthy(topology); !errors.Is(err, stream.ErrFull) || !strings.Contains(err.Error(), "EVENTS_0") {
		t.Errorf("got %v, want ErrFull naming EVENTS_0", err)
	}
	q.NC.Close()
	if err := q.healthy(topology); !errors.Is(err, stream.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
}
