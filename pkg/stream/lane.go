package stream

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/logboom/logboom/pkg/record"
)

// The life of an entry. Whoever moves it away from waiting decides what
// becomes of it: the lane takes it, or its caller drops it.
const (
	entryWaiting int32 = iota
	entryTaken
	entryDropped
)

// entry is one caller's body on its way.
type entry struct {
	lane     *lane
	subject  string
	id       string     // Nats-Msg-Id, or ""
	messages [][][]byte // the parts of each message
	size     int
	records  int
	since    time.Time
	state    atomic.Int32
	flight   *flight      // set before the entry is taken
	settled  chan outcome // holds the one outcome, so that settling never waits
}

type outcome struct {
	ack Ack
	err error
}

func newEntry(l *lane, m *Message, size int, messages [][][]byte) *entry {
	e := &entry{
		lane:     l,
		subject:  l.subjects[0],
		messages: messages,
		size:     size,
		records:  m.Records,
		since:    time.Now(),
		settled:  make(chan outcome, 1),
	}
	if m.Notify {
		e.subject = l.subjects[len(l.subjects)-1]
	}
	if m.ID != "" {
		e.id = messageID(m.Project, m.ID)
	}
	return e
}

// leave is what a caller does whose context has ended. It returns once the
// lane no longer reads the caller's bytes.
func (e *entry) leave(ctx context.Context) (Ack, error) {
	if e.state.CompareAndSwap(entryWaiting, entryDropped) {
		return Ack{}, fmt.Errorf("publish: nothing was accepted: %w", context.Cause(ctx))
	}
	<-e.flight.copied
	return Ack{}, fmt.Errorf("publish: %w: %w", ErrUnknown, context.Cause(ctx))
}

// settle tells the caller, if it is still there, and gives the bytes back.
func (e *entry) settle(ack Ack, err error) {
	p := e.lane.p
	p.pending.Add(-int64(e.size))
	if err != nil {
		e.settled <- outcome{err: fmt.Errorf("publish to %s: %w", e.lane.stream, err)}
		return
	}
	p.counts.bodies.Add(1)
	p.counts.records.Add(uint64(e.records))
	e.settled <- outcome{ack: ack}
}

// large tells whether an entry needs several messages: a flight of its own.
func (e *entry) large() bool { return len(e.messages) > 1 }

// lane gathers what is published to one stream. Its goroutine owns the
// waiting entries; each flight runs in a goroutine of its own and lands.
type lane struct {
	p        *Publisher
	stream   string
	subjects []string    // what the stream takes in; the last one for what asks for a notification
	in       chan *entry // unbuffered: what it takes, it settles
	landed   chan error  // room for every flight, so that landing never waits
	waiting  []*entry
	bytes    int // of the waiting entries
	inFlight int
}

func newLane(p *Publisher, kind record.Kind, shard int) *lane {
	return &lane{
		p:        p,
		stream:   Name(kind, shard),
		subjects: streamSubjects(kind, shard),
		in:       make(chan *entry),
		landed:   make(chan error, p.cfg.MaxInFlight),
	}
}

// run works until stopping is closed and everything has landed.
func (l *lane) run(stopping <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	in := l.in
	for {
		fresh := false // an answer has just come back
		select {
		case e := <-in:
			l.push(e)
			l.pushReady(in)
		case err := <-l.landed:
			l.land(err)
			l.pushReady(in)
			fresh = true
		case <-timer.C:
		case <-stopping:
			stopping, in = nil, nil
		}
		for l.due(fresh || in == nil) {
			l.launch()
			fresh = false
		}
		if in == nil && l.inFlight == 0 && len(l.waiting) == 0 {
			return
		}
		l.rearm(timer)
	}
}

func (l *lane) push(e *entry) {
	l.waiting = append(l.waiting, e)
	l.bytes += e.size
}

// pushReady takes in everybody who stands at the door, so that they share the
// flight that starts now.
func (l *lane) pushReady(in <-chan *entry) {
	for l.bytes < l.p.cfg.MaxGroupBytes {
		select {
		case e := <-in:
			l.push(e)
		default:
			return
		}
	}
}

// land takes a flight back. When the queue is away, everybody who waits is
// told at once: nothing of theirs was sent, and holding them until each has
// timed out in turn would help nobody.
func (l *lane) land(err error) {
	l.inFlight--
	if !away(err) {
		return
	}
	f := newFlight(l)
	for _, e := range l.waiting {
		if l.claim(e, f) {
			f.add(e)
		}
	}
	clear(l.waiting)
	l.waiting, l.bytes = l.waiting[:0], 0
	f.ground(fmt.Errorf("%w: the message before this one was not answered", ErrUnavailable))
}

// due tells whether the next flight should start now: natural batching. An
// idle lane sends at once. While a flight is in the air the others gather,
// until an answer comes back, there is enough for a full group, or the oldest
// has waited long enough.
func (l *lane) due(release bool) bool {
	switch {
	case len(l.waiting) == 0 || l.inFlight >= l.p.cfg.MaxInFlight:
		return false
	case l.inFlight == 0 || release || l.bytes >= l.p.cfg.MaxGroupBytes:
		return true
	}
	return time.Since(l.waiting[0].since) >= l.p.cfg.MaxGroupWait
}

// rearm sets the timer for the oldest entry, where only time is missing.
func (l *lane) rearm(timer *time.Timer) {
	if len(l.waiting) == 0 || l.inFlight >= l.p.cfg.MaxInFlight {
		timer.Stop()
		return
	}
	timer.Reset(time.Until(l.waiting[0].since.Add(l.p.cfg.MaxGroupWait)))
}

// launch sends the next flight off.
func (l *lane) launch() {
	f := l.take()
	if f == nil {
		return
	}
	l.inFlight++
	go func() { l.landed <- f.fly() }()
}

// take fills a flight: the oldest entry and whatever may go with it, in order.
// It returns nil when everybody who waited has left.
func (l *lane) take() *flight {
	f := newFlight(l)
	rest := l.waiting[:0]
	l.bytes = 0
	for _, e := range l.waiting {
		switch {
		case !f.takes(e):
			rest = append(rest, e)
			l.bytes += e.size
		case l.claim(e, f):
			f.add(e)
		}
	}
	clear(l.waiting[len(rest):])
	l.waiting = rest
	if len(f.entries) == 0 {
		return nil
	}
	return f
}

// claim takes an entry from its caller. When the caller has left, the bytes
// are given back here.
func (l *lane) claim(e *entry, f *flight) bool {
	e.flight = f
	if e.state.CompareAndSwap(entryWaiting, entryTaken) {
		return true
	}
	l.p.pending.Add(-int64(e.size))
	return false
}
