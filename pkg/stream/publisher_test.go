package stream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

func TestGroupCommitJoinsSmallBodiesAndKeepsEveryByte(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.Open(stream.Config{Shards: 1})
	p := q.publisher(topology, stream.PublisherConfig{})
	const callers, each = 32, 20
	var running sync.WaitGroup
	for caller := range callers {
		running.Go(func() {
			for i := range each {
				body := fmt.Sprintf("<%d.%d>", caller, i)
				m := stream.Message{Kind: record.KindLog, Project: "shop", Parts: parts(body[:1], body[1:]), Records: 1}
				ack, err := p.Publish(q.Ctx(), m)
				if err != nil || ack.Stream != "LOGS_0" || ack.Seq == 0 || ack.Duplicate {
					t.Errorf("got %+v, %v", ack, err)
				}
			}
		})
	}
	running.Wait()

	stats := p.Stats()
	if stats.Bodies != callers*each || stats.Records != callers*each || stats.Messages >= stats.Bodies/2 || stats.Pending != 0 {
		t.Errorf("got %+v: the bodies were not joined, or not counted", stats)
	}
	var stored strings.Builder
	for _, delivery := range q.all(topology, "LOGS_0") {
		stored.Write(delivery.Data)
	}
	for caller := range callers {
		at := -1
		for i := range each {
			body := fmt.Sprintf("<%d.%d>", caller, i)
			next := strings.Index(stored.String(), body)
			if next <= at || strings.Count(stored.String(), body) != 1 {
				t.Fatalf("body %s is lost, doubled or before an older one of its caller", body)
			}
			at = next
		}
	}
}

func TestEventsOfOneProjectStayOnOneStreamBySubject(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.Open(stream.Config{Shards: 4})
	p := q.publisher(topology, stream.PublisherConfig{})
	names := make(map[string]bool)
	for i := range 20 {
		m := stream.Message{Kind: record.KindEvent, Project: "shop", Notify: i%2 == 0, Parts: parts("an event")}
		ack, err := p.Publish(q.Ctx(), m)
		if err != nil {
			t.Fatal(err)
		}
		names[ack.Stream] = true
	}
	if len(names) != 1 {
		t.Fatalf("events of one project are on %v", names)
	}
	for name := range names {
		for i, delivery := range q.all(topology, name) {
			if want := []string{"notify", "quiet"}[i%2]; !strings.HasSuffix(delivery.Subject, "."+want) {
				t.Errorf("event %d has subject %s, want …%s", i, delivery.Subject, want)
			}
		}
	}
}

func TestLogsOfOneBigProjectSpreadOverAllStreams(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.Open(stream.Config{Shards: 4})
	p := q.publisher(topology, stream.PublisherConfig{})
	names := make(map[string]int)
	for range 16 {
		ack, err := p.Publish(q.Ctx(), stream.Message{Kind: record.KindLog, Project: "shop", Parts: [][]byte{make([]byte, 256<<10)}})
		if err != nil {
			t.Fatal(err)
		}
		names[ack.Stream]++
	}
	for _, name := range topology.Streams(record.KindLog) {
		if names[name] != 4 {
			t.Errorf("%s got %d of 16 messages, want 4", name, names[name])
		}
	}
}

func TestKeyedBodyTravelsAloneAndItsRepeatIsADuplicate(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.Open(stream.Config{Shards: 4})
	p := q.publisher(topology, stream.PublisherConfig{})
	m := stream.Message{Kind: record.KindLog, Project: "shop", ID: "order 3810\r\n", Parts: parts("once")}
	first, err := p.Publish(q.Ctx(), m)
	if err != nil || first.Duplicate {
		t.Fatalf("got %+v, %v", first, err)
	}
	again, err := p.Publish(q.Ctx(), m)
	if err != nil || !again.Duplicate || again.Stream != first.Stream || again.Seq != first.Seq {
		t.Errorf("the repeat got %+v, %v; want the place of %+v", again, err, first)
	}
	m.Project = "other"
	if other, err := p.Publish(q.Ctx(), m); err != nil || other.Duplicate {
		t.Errorf("the same key in another project got %+v, %v", other, err)
	}
}

// Few keyed bodies are sent one by one, many in one batch, and many with a repeat
// among them first in a batch and then one by one.
func TestKeyedBodiesTogetherGetTheirOwnPlaces(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ callers, perKey int }{
		"few":               {callers: 8, perKey: 1},
		"few with repeats":  {callers: 8, perKey: 2},
		"many":              {callers: 300, perKey: 1},
		"many with repeats": {callers: 300, perKey: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t)
			topology := q.Open(stream.Config{Shards: 1})
			p := q.publisher(topology, stream.PublisherConfig{MaxInFlight: 1})
			acks := make([]stream.Ack, test.callers)
			var running sync.WaitGroup
			for i := range acks {
				running.Go(func() {
					key := fmt.Sprint(i / test.perKey)
					m := stream.Message{Kind: record.KindLog, Project: "shop", ID: key, Parts: parts("body " + key)}
					var err error
					if acks[i], err = p.Publish(q.Ctx(), m); err != nil {
						t.Error(err)
					}
				})
			}
			running.Wait()
			keys := test.callers / test.perKey
			stored := q.all(topology, "LOGS_0")
			if stats := p.Stats(); len(stored) != keys || stats.Messages != uint64(keys) {
				t.Fatalf("%d messages are stored, %d counted, want %d", len(stored), stats.Messages, keys)
			}
			fresh := 0
			for i, ack := range acks {
				if want := fmt.Sprintf("body %d", i/test.perKey); string(stored[ack.Seq-1].Data) != want {
					t.Errorf("%q was acknowledged as %d, where %q is stored", want, ack.Seq, stored[ack.Seq-1].Data)
				}
				if !ack.Duplicate {
					fresh++
				}
			}
			if fresh != keys {
				t.Errorf("%d bodies count as new, want %d", fresh, keys)
			}
		})
	}
}

func TestLargeBodyIsStoredWholeInOneStream(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.Open(stream.Config{Shards: 1})
	p := q.publisher(topology, stream.PublisherConfig{MaxGroupBytes: 64 << 10})
	var body [][]byte
	for i := range 9 {
		body = append(body, bytes.Repeat([]byte{byte('a' + i)}, 20<<10))
	}
	m := stream.Message{Kind: record.KindLog, Project: "shop", ID: "whole", Parts: body, Records: 9}
	ack, err := p.Publish(q.Ctx(), m)
	if err != nil || ack.Seq != 3 || ack.Duplicate {
		t.Fatalf("got %+v, %v; want sequence 3", ack, err)
	}
	var stored []byte
	for _, delivery := range q.all(topology, "LOGS_0") {
		stored = append(stored, delivery.Data...)
	}
	if !bytes.Equal(stored, slices.Concat(body...)) {
		t.Error("the body is not stored as it was")
	}
	m.Parts = [][]byte{slices.Concat(body...)[:60<<10], slices.Concat(body...)[60<<10:]}
	if again, err := p.Publish(q.Ctx(), m); err != nil || !again.Duplicate {
		t.Errorf("the repeat, cut in other places, got %+v, %v; want a duplicate", again, err)
	}
	if info, err := q.info(topology, "LOGS_0"); err != nil || info.Messages != 3 {
		t.Errorf("%d messages are stored, %v; want 3", info.Messages, err)
	}
}

func TestFullStreamRefusesMessagesAndKeepsItsOwn(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.Open(stream.Config{Shards: 1, MaxBytes: 1 << 20})
	p := q.publisher(topology, stream.PublisherConfig{MaxGroupBytes: 32 << 10})
	publish := func(chunks int) error {
		m := stream.Message{Kind: record.KindLog, Project: "shop"}
		for range chunks {
			m.Parts = append(m.Parts, make([]byte, 32<<10))
		}
		_, err := p.Publish(q.Ctx(), m)
		return err
	}
	accepted := 0
	for publish(1) == nil {
		if accepted++; accepted == 20 {
			if err := publish(16); !errors.Is(err, stream.ErrFull) || errors.Is(err, stream.ErrUnknown) {
				t.Fatalf("a large body with room for some of it got %v, want ErrFull", err)
			}
			if info, err := q.info(topology, "LOGS_0"); err != nil || info.Messages != 20 {
				t.Fatalf("%d messages after the refusal, %v; want 20", info.Messages, err)
			}
		}
	}
	if err := publish(1); !errors.Is(err, stream.ErrFull) || errors.Is(err, stream.ErrUnknown) {
		t.Errorf("got %v, want ErrFull", err)
	}
	if stored := q.all(topology, "LOGS_0"); len(stored) != accepted || stored[0].Seq != 1 {
		t.Errorf("%d messages from %d on, want %d from 1 on", len(stored), stored[0].Seq, accepted)
	}
}

func TestPublishRefusesInvalidMessages(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.Open(stream.Config{Shards: 1})
	p := q.publisher(topology, stream.PublisherConfig{MaxGroupBytes: 10})
	many := make([][]byte, 1001)
	for i := range many {
		many[i] = make([]byte, 10)
	}
	for name, test := range map[string]struct {
		parts [][]byte
		want  error
	}{
		"a part above the largest message": {[][]byte{make([]byte, 8<<20)}, stream.ErrTooLarge},
		"more messages than a batch has":   {many, stream.ErrTooLarge},
	} {
		if _, err := p.Publish(q.Ctx(), stream.Message{Kind: record.KindLog, Project: "shop", Parts: test.parts}); !errors.Is(err, test.want) {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
	}
	if _, err := p.Publish(q.Ctx(), stream.Message{Kind: record.KindLog, Project: "shop"}); err == nil {
		t.Error("an empty message was accepted")
	}
	if _, err := p.Publish(q.Ctx(), stream.Message{Kind: 9, Project: "shop", Parts: parts("x")}); err == nil {
		t.Error("an unknown kind was accepted")
	}
}

// No Run, so whatever is admitted stays waiting.
func TestPublishRefusesAtOnceWhenTooMuchWaits(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	p, err := stream.NewPublisher(q.Open(stream.Config{Shards: 1}), stream.PublisherConfig{MaxPending: 1000})
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(q.Ctx())
	body := stream.Message{Kind: record.KindLog, Project: "shop", Parts: [][]byte{make([]byte, 600)}}
	first := make(chan error, 1)
	go func() {
		_, err := p.Publish(ctx, body)
		first <- err
	}()
	for patient := q.Ctx(); p.Stats().Pending == 0; {
		if patient.Err() != nil {
			t.Fatal("the first body was not admitted")
		}
		runtime.Gosched()
	}
	if _, err := p.Publish(q.Ctx(), body); !errors.Is(err, stream.ErrBusy) {
		t.Errorf("got %v, want ErrBusy", err)
	}
	leave()
	if err := <-first; !errors.Is(err, context.Canceled) || errors.Is(err, stream.ErrUnknown) {
		t.Errorf("the caller who left got %v", err)
	}
	if got := p.Stats().Pending; got != 0 {
		t.Errorf("%d bytes are still held", got)
	}
}

func TestRunSendsWaitingMessagesBeforeItReturns(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.Open(stream.Config{Shards: 1})
	p, err := stream.NewPublisher(topology, stream.PublisherConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(q.Ctx())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	accepted := make(chan int, 64)
	var callers sync.WaitGroup
	for range cap(accepted) {
		callers.Go(func() {
			n := 0
			for {
				_, err := p.Publish(q.Ctx(), stream.Message{Kind: record.KindLog, Project: "shop", Parts: parts("x")})
				if errors.Is(err, stream.ErrClosed) {
					accepted <- n
					return
				}
				if err != nil {
					t.Error(err)
				}
				if n++; n == 20 {
					stop()
				}
			}
		})
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	callers.Wait()
	total, stored := 0, 0
	for range cap(accepted) {
		total += <-accepted
	}
	for _, delivery := range q.all(topology, "LOGS_0") {
		stored += len(delivery.Data)
	}
	if total != stored {
		t.Errorf("%d bodies were accepted and %d are stored", total, stored)
	}
	if err := p.Run(q.Ctx()); err == nil {
		t.Error("a second Run was allowed")
	}
}

func TestPublisherConfigNamesTheBadSetting(t *testing.T) {
	t.Parallel()
	for field, cfg := range map[string]stream.PublisherConfig{
		"MaxGroupBytes": {MaxGroupBytes: -1},
		"MaxGroupWait":  {MaxGroupWait: -1},
		"MaxInFlight":   {MaxInFlight: 51},
		"MaxPending":    {MaxPending: -1},
		"AckTimeout":    {AckTimeout: -1},
	} {
		if err := cfg.Validate(); err == nil || !strings.HasPrefix(err.Error(), "setting "+field+" is ") {
			t.Errorf("%s: got %v", field, err)
		}
	}
}
