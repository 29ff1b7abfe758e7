package stream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/stream/streamtest"
)

func TestStoppedServerFailsPublishesAtOnceAndLosesNoAcceptedOne(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.Open(stream.Config{Shards: 2})
	p := q.publisher(topology, stream.PublisherConfig{AckTimeout: 2 * patience}) // whoever waits for it is not fast

	var mu sync.Mutex
	accepted := make(map[string]bool)
	failed := make(chan error, 16)
	var callers sync.WaitGroup
	for caller := range cap(failed) {
		callers.Go(func() {
			for i := 0; ; i++ {
				body := fmt.Sprintf("<%d.%d>", caller, i)
				if _, err := p.Publish(q.Ctx(), stream.Message{Kind: record.KindLog, Project: "shop", Parts: parts(body)}); err != nil {
					failed <- err
					return
				}
				mu.Lock()
				accepted[body] = true
				mu.Unlock()
			}
		})
	}
	for patient := q.Ctx(); p.Stats().Bodies < 200 && patient.Err() == nil; {
		if _, err := p.Publish(q.Ctx(), stream.Message{Kind: record.KindEvent, Project: "shop", Parts: parts("x")}); err != nil {
			t.Fatal(err)
		}
	}
	q.Stop()
	callers.Wait()
	for range cap(failed) {
		if err := <-failed; !errors.Is(err, stream.ErrUnavailable) {
			t.Errorf("got %v, want ErrUnavailable", err)
		}
	}
	body := stream.Message{Kind: record.KindLog, Project: "shop", Parts: parts("x")}
	q.WaitFor("the client to notice", func() bool {
		_, err := p.Publish(q.Ctx(), body)
		return !errors.Is(err, stream.ErrUnknown)
	})
	if _, err := p.Publish(q.Ctx(), body); !errors.Is(err, stream.ErrUnavailable) || errors.Is(err, stream.ErrUnknown) {
		t.Errorf("while the queue is known to be away: %v", err)
	}

	q.Start()
	publishUntilAccepted(t, q, p)
	var stored strings.Builder
	for _, name := range topology.Streams(record.KindLog) {
		for _, delivery := range q.all(topology, name) {
			stored.Write(delivery.Data)
		}
	}
	for body := range accepted {
		if strings.Count(stored.String(), body) != 1 {
			t.Errorf("accepted body %s is stored %d times", body, strings.Count(stored.String(), body))
		}
	}
}

func TestStoppedServerStoresLargeBodiesWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.Open(stream.Config{Shards: 1})
	p := q.publisher(topology, stream.PublisherConfig{MaxGroupBytes: 16 << 10})
	const pieces = 6
	accepted := make([]int, 8)
	for round := range 3 {
		var callers sync.WaitGroup
		for caller := range accepted {
			callers.Go(func() {
				for {
					m := stream.Message{Kind: record.KindLog, Project: "shop"}
					for range pieces {
						m.Parts = append(m.Parts, bytes.Repeat([]byte{byte(caller)}, 16<<10))
					}
					if _, err := p.Publish(q.Ctx(), m); err != nil {
						return
					}
					accepted[caller]++
				}
			})
		}
		q.WaitFor("some bodies", func() bool { return p.Stats().Bodies > uint64(20*(round+1)) })
		q.Stop()
		callers.Wait()
		q.Start()
		publishUntilAccepted(t, q, p)
	}
	stored, run := make([]int, len(accepted)), 0
	var last byte
	for _, delivery := range q.all(topology, "LOGS_0") {
		if len(delivery.Data) != 16<<10 {
			continue // of publishUntilAccepted
		}
		if run > 0 && delivery.Data[0] != last {
			t.Fatalf("message %d cuts into a body after %d of its %d messages", delivery.Seq, run, pieces)
		}
		last, run = delivery.Data[0], (run+1)%pieces
		if run == 0 {
			stored[last]++
		}
	}
	for caller := range accepted {
		if run != 0 || stored[caller] < accepted[caller] || stored[caller] > accepted[caller]+3 {
			t.Errorf("caller %d: %d bodies were accepted and %d are stored, %d messages over", caller, accepted[caller], stored[caller], run)
		}
	}
}

// publishUntilAccepted publishes until the publisher works again.
func publishUntilAccepted(t *testing.T, q *queue, p *stream.Publisher) {
	t.Helper()
	for patient := q.Ctx(); patient.Err() == nil; streamtest.Pause() {
		if _, err := p.Publish(patient, stream.Message{Kind: record.KindLog, Project: "shop", Parts: parts("again")}); err == nil {
			return
		}
	}
	t.Fatal("the publisher did not recover")
}

func TestLostAnswerIsUnknownAndARepeatWithItsKeyIsADuplicate(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	between := streamtest.NewProxy(t, q.Server.Addr())
	topology := q.openThrough(between, stream.Config{Shards: 1})
	hasty := q.publisher(topology, stream.PublisherConfig{AckTimeout: 200 * time.Millisecond})
	p := q.publisher(topology, stream.PublisherConfig{})
	m := stream.Message{Kind: record.KindLog, Project: "shop", ID: "one", Parts: parts("body")}

	publishUntilAccepted(t, q, hasty)
	between.Mute()
	if _, err := hasty.Publish(q.Ctx(), m); !errors.Is(err, stream.ErrUnknown) || !errors.Is(err, stream.ErrUnavailable) {
		t.Fatalf("got %v, want ErrUnavailable and ErrUnknown", err)
	}
	q.awaitStored(t, "body") // on its way it may have waited for longer than its sender
	between.Cut()
	publishUntilAccepted(t, q, p)
	ack, err := p.Publish(q.Ctx(), m)
	if err != nil || !ack.Duplicate {
		t.Errorf("the repeat got %+v, %v; want a duplicate", ack, err)
	}
}

// awaitStored waits until a text is on the only logs stream. It reads past any proxy.
func (q *queue) awaitStored(t *testing.T, text string) {
	t.Helper()
	topology := q.Open(stream.Config{MaxBytes: proxiedBytes, DeadMaxBytes: proxiedDeadBytes})
	q.WaitFor("the message to be stored", func() bool {
		return slices.ContainsFunc(q.all(topology, "LOGS_0"), func(d stream.Delivery) bool { return bytes.Contains(d.Data, []byte(text)) })
	})
}

func TestLostConnectionEndsTheWaitForAnAnswer(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	between := streamtest.NewProxy(t, q.Server.Addr())
	topology := q.openThrough(between, stream.Config{Shards: 1})
	p := q.publisher(topology, stream.PublisherConfig{AckTimeout: 2 * patience})
	publishUntilAccepted(t, q, p)
	between.Mute()
	failed := make(chan error, 1)
	go func() {
		_, err := p.Publish(q.Ctx(), stream.Message{Kind: record.KindLog, Project: "shop", Parts: parts("sent")})
		failed <- err
	}()
	q.awaitStored(t, "sent")
	between.Cut()
	if err := <-failed; !errors.Is(err, stream.ErrUnknown) {
		t.Errorf("got %v, want ErrUnknown", err)
	}
}

func TestCallerThatGivesUpMayReuseItsBytes(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	between := streamtest.NewProxy(t, q.Server.Addr())
	topology := q.openThrough(between, stream.Config{Shards: 1})
	p := q.publisher(topology, stream.PublisherConfig{MaxInFlight: 1})
	publishUntilAccepted(t, q, p)
	between.Mute()
	var callers sync.WaitGroup
	for range 8 { // one of them is sent, the others wait behind it
		callers.Go(func() {
			body := []byte("good")
			ctx, leave := context.WithTimeout(q.Ctx(), 50*time.Millisecond)
			defer leave()
			_, err := p.Publish(ctx, stream.Message{Kind: record.KindLog, Project: "shop", Parts: [][]byte{body}})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want the context's error", err)
			}
			copy(body, "evil")
		})
	}
	callers.Wait()
	between.Cut()
	publishUntilAccepted(t, q, p)
	for _, delivery := range q.all(topology, "LOGS_0") {
		if bytes.Contains(delivery.Data, []byte("evil")) {
			t.Fatalf("stored %q", delivery.Data)
		}
	}
}

func TestConnectWaitsForTheQueueAndHidesItsToken(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	address := q.Server.URL()
	q.Stop()

	lines := make(chan string, 100)
	log := slog.New(slog.NewTextHandler(lineWriter(lines), nil))
	ctx, cancel := context.WithCancel(q.Ctx())
	defer cancel()
	refused := make(chan error, 1)
	go func() {
		_, _, err := stream.Connect(ctx, address, stream.ConnectConfig{Logger: log})
		refused <- err
	}()
	if line := <-lines; strings.Contains(line, q.Config.Token) || !strings.Contains(line, "address=nats://127.0.0.1") {
		t.Errorf("logged %q", line)
	}
	cancel()
	if err := <-refused; !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), q.Config.Token) || !strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("got %v", err)
	}

	for len(lines) > 0 {
		<-lines // of the one that gave up
	}
	connected := make(chan error, 1)
	go func() {
		nc, _, err := stream.Connect(q.Ctx(), address, stream.ConnectConfig{Logger: log})
		if err == nil {
			nc.Close()
		}
		connected <- err
	}()
	<-lines // it has tried in vain
	q.Start()
	if err := <-connected; err != nil {
		t.Error(err)
	}
}

// lineWriter sends log lines to a test, and drops those that it does not receive.
type lineWriter chan string

func (w lineWriter) Write(line []byte) (int, error) {
	select {
	case w <- string(line):
	default:
	}
	return len(line), nil
}

// Sizes of the streams of a test with a proxy.
const (
	proxiedBytes     = 64 << 20
	proxiedDeadBytes = 8 << 20
)
