package stream

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/logboom/logboom/pkg/record"
)

// The states of a body. The first to move it away from bodyWaiting decides: the
// pipeline sends it, or its caller withdraws it.
const (
	bodyWaiting int32 = iota
	bodySending
	bodyWithdrawn
)

// body is one caller's message on its way through a pipeline.
type body struct {
	pipeline *pipeline
	subject  string
	id       string     // Nats-Msg-Id, or ""
	messages [][][]byte // the parts of each message
	size     int
	records  int
	since    time.Time
	state    atomic.Int32
	group    *group       // set before the state is bodySending
	result   chan outcome // holds the one outcome, so that sending it never blocks
}

type outcome struct {
	ack Ack
	err error
}

func newBody(l *pipeline, m *Message, size int, messages [][][]byte) *body {
	b := &body{
		pipeline: l,
		subject:  l.subjects[0],
		messages: messages,
		size:     size,
		records:  m.Records,
		since:    time.Now(),
		result:   make(chan outcome, 1),
	}
	if m.Notify {
		b.subject = l.subjects[len(l.subjects)-1]
	}
	if m.ID != "" {
		b.id = messageID(m.Project, m.ID)
	}
	return b
}

// withdraw ends the wait of a caller whose context has ended. It returns once the
// pipeline no longer reads the caller's bytes.
func (b *body) withdraw(ctx context.Context) (Ack, error) {
	if b.state.CompareAndSwap(bodyWaiting, bodyWithdrawn) {
		return Ack{}, fmt.Errorf("publish: nothing was accepted: %w", context.Cause(ctx))
	}
	<-b.group.copied
	return Ack{}, fmt.Errorf("publish: %w: %w", ErrUnknown, context.Cause(ctx))
}

// finish reports the outcome to the caller, if it still waits, and frees the
// bytes.
func (b *body) finish(ack Ack, err error) {
	p := b.pipeline.publisher
	p.pending.Add(-int64(b.size))
	if err != nil {
		b.result <- outcome{err: fmt.Errorf("publish to %s: %w", b.pipeline.stream, err)}
		return
	}
	p.counts.bodies.Add(1)
	p.counts.records.Add(uint64(b.records))
	b.result <- outcome{ack: ack}
}

// large returns whether a body needs several messages, and so a group of its own.
func (b *body) large() bool { return len(b.messages) > 1 }

// pipeline gathers what is published to one stream. Its goroutine owns the
// waiting bodies; each group is sent by a goroutine of its own.
type pipeline struct {
	publisher *Publisher
	stream    string
	subjects  []string   // of the stream; the last one for events that ask for a notification
	in        chan *body // unbuffered: what the pipeline receives, it finishes
	answered  chan error // room for every group in flight, so that a send never blocks
	waiting   []*body
	bytes     int // of the waiting bodies
	inFlight  int
}

func newPipeline(p *Publisher, kind record.Kind, shard int) *pipeline {
	return &pipeline{
		publisher: p,
		stream:    Name(kind, shard),
		subjects:  streamSubjects(kind, shard),
		in:        make(chan *body),
		answered:  make(chan error, p.cfg.MaxInFlight),
	}
}

// run works until stopping is closed and every group is answered.
func (l *pipeline) run(stopping <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	in := l.in
	for {
		fresh := false // an answer has just arrived
		select {
		case b := <-in:
			l.push(b)
			l.pushReady(in)
		case err := <-l.answered:
			l.inFlight--
			if isAway(err) {
				l.rejectWaiting()
			}
			l.pushReady(in)
			fresh = true
		case <-timer.C:
		case <-stopping:
			stopping, in = nil, nil
		}
		for l.due(fresh || in == nil) {
			if g := l.nextGroup(); g != nil {
				l.inFlight++
				go func() { l.answered <- g.publish() }() // run waits for it
			}
			fresh = false
		}
		if in == nil && l.inFlight == 0 && len(l.waiting) == 0 {
			return
		}
		l.rearm(timer)
	}
}

func (l *pipeline) push(b *body) {
	l.waiting = append(l.waiting, b)
	l.bytes += b.size
}

// pushReady receives from every caller that is ready to send, so that all of them
// share the next group.
func (l *pipeline) pushReady(in <-chan *body) {
	for l.bytes < l.publisher.cfg.MaxGroupBytes {
		select {
		case b := <-in:
			l.push(b)
		default:
			return
		}
	}
}

// rejectWaiting fails every waiting body, because the queue is away: nothing of
// theirs was sent, and each would only wait for its own timeout.
func (l *pipeline) rejectWaiting() {
	g := newGroup(l)
	for _, b := range l.waiting {
		if l.claim(b, g) {
			g.add(b)
		}
	}
	clear(l.waiting)
	l.waiting, l.bytes = l.waiting[:0], 0
	g.reject(fmt.Errorf("%w: the message before this one was not answered", ErrUnavailable))
}

// due returns whether the next group should be sent now. An idle pipeline sends
// at once. While a group is in flight, bodies gather until an answer arrives,
// there are enough for a full group, or the oldest has waited long enough.
func (l *pipeline) due(release bool) bool {
	switch {
	case len(l.waiting) == 0 || l.inFlight >= l.publisher.cfg.MaxInFlight:
		return false
	case l.inFlight == 0 || release || l.bytes >= l.publisher.cfg.MaxGroupBytes:
		return true
	}
	return time.Since(l.waiting[0].since) >= l.publisher.cfg.MaxGroupWait
}

// rearm sets the timer for the oldest body, where only time is missing.
func (l *pipeline) rearm(timer *time.Timer) {
	if len(l.waiting) == 0 || l.inFlight >= l.publisher.cfg.MaxInFlight {
		timer.Stop()
		return
	}
	timer.Reset(time.Until(l.waiting[0].since.Add(l.publisher.cfg.MaxGroupWait)))
}

// nextGroup returns the oldest body with whatever may travel with it, in order,
// or nil when every waiting body was withdrawn.
func (l *pipeline) nextGroup() *group {
	g := newGroup(l)
	rest := l.waiting[:0]
	l.bytes = 0
	for _, b := range l.waiting {
		switch {
		case !g.fits(b):
			rest = append(rest, b)
			l.bytes += b.size
		case l.claim(b, g):
			g.add(b)
		}
	}
	clear(l.waiting[len(rest):])
	l.waiting = rest
	if len(g.bodies) == 0 {
		return nil
	}
	return g
}

// claim assigns a body to a group. It returns false where the caller has
// withdrawn it, and frees the bytes then.
func (l *pipeline) claim(b *body, g *group) bool {
	b.group = g
	if b.state.CompareAndSwap(bodyWaiting, bodySending) {
		return true
	}
	l.publisher.pending.Add(-int64(b.size))
	return false
}
