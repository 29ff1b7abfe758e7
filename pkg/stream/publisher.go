package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/logboom/logboom/pkg/record"
)

const (
	defaultMaxGroupBytes = 512 << 10
	defaultMaxGroupWait  = 5 * time.Millisecond
	// One in flight gathers best, a second keeps the disk busy while the next
	// large message is on its way (measured on one stream with 512 KiB: 231 →
	// 278 MB/s); 4 and 8 gained nothing.
	defaultMaxInFlight = 2
	defaultMaxPending  = 64 << 20
	defaultAckTimeout  = 5 * time.Second
	// maxBatch is how many messages the server takes in one atomic batch.
	maxBatch = 1000
	// rollBytes is how many bytes of logs this process sends before the
	// rolling part of the route moves on. Large enough that small senders meet
	// in one group, small enough that a big project uses all shards.
	rollBytes = 256 << 10
)

// Message is one body of records for the queue.
type Message struct {
	// Kind is the family of streams it goes to.
	Kind record.Kind
	// Notify marks events that ask for a notification.
	Notify bool
	// Project decides the shard of events and, with the ID, of keyed logs.
	Project string
	// ID is the sender's key, of any length: a repeat with the same project
	// and ID within the stream's duplicate window is stored once. A message
	// with an ID is never joined with others; one without may be.
	ID string
	// Parts are the sections of the body, each at most MaxMessage large.
	// Parts that fit together travel as one message, glued; what needs several
	// messages is stored all or nothing, in one stream. They may be changed
	// again once Publish returns.
	Parts [][]byte
	// Records is how many records the parts hold.
	Records int
}

func (m *Message) size() int {
	size := 0
	for _, part := range m.Parts {
		size += len(part)
	}
	return size
}

// Ack says where a message is stored.
type Ack struct {
	Stream string
	// Seq is the message's sequence; of a body in several messages, the last
	// one's. 0 for a duplicate of such a body: the server does not tell.
	Seq uint64
	// Duplicate: the ID was known, and what it named is stored already.
	Duplicate bool
}

// PublisherConfig bounds what a Publisher holds and how long it waits.
type PublisherConfig struct {
	// MaxGroupBytes is how large a message grows by joining bodies. Default
	// 512 KiB.
	MaxGroupBytes int
	// MaxGroupWait is the longest that a body waits for others while there is
	// room in flight. Default 5 ms.
	MaxGroupWait time.Duration
	// MaxInFlight is how many messages or batches of one stream may be
	// unacknowledged. Default 2. The server takes 50 batches of one stream
	// from all its clients together.
	MaxInFlight int
	// MaxPending is how many bytes of bodies may be held in all. Default
	// 64 MiB. A single larger body is taken when nothing else is held.
	MaxPending int64
	// AckTimeout is how long to wait for the queue's answer. Default 5 s.
	AckTimeout time.Duration
}

// Validate names the first setting that cannot work.
func (c PublisherConfig) Validate() error {
	switch {
	case c.MaxGroupBytes < 0:
		return fmt.Errorf("setting MaxGroupBytes is %d: give 0 or more", c.MaxGroupBytes)
	case c.MaxGroupWait < 0:
		return fmt.Errorf("setting MaxGroupWait is %s: give 0 or more", c.MaxGroupWait)
	case c.MaxInFlight < 0 || c.MaxInFlight > 50:
		return fmt.Errorf("setting MaxInFlight is %d: give 1 to 50", c.MaxInFlight)
	case c.MaxPending < 0:
		return fmt.Errorf("setting MaxPending is %d: give 0 or more", c.MaxPending)
	case c.AckTimeout < 0:
		return fmt.Errorf("setting AckTimeout is %s: give 0 or more", c.AckTimeout)
	}
	return nil
}

func (c *PublisherConfig) setDefaults(maxMessage int) {
	c.MaxGroupBytes = min(orDefault(c.MaxGroupBytes, defaultMaxGroupBytes), maxMessage)
	c.MaxGroupWait = orDefault(c.MaxGroupWait, defaultMaxGroupWait)
	c.MaxInFlight = orDefault(c.MaxInFlight, defaultMaxInFlight)
	c.MaxPending = orDefault(c.MaxPending, defaultMaxPending)
	c.AckTimeout = orDefault(c.AckTimeout, defaultAckTimeout)
}

// Publisher puts messages on the queue, many callers' small ones in one
// message, so that one disk sync serves them all. Its methods may be called
// from any goroutine; Run must be running for Publish to get anywhere.
type Publisher struct {
	t        *Topology
	cfg      PublisherConfig
	lanes    map[record.Kind][]*lane
	link     *link
	buffers  sync.Pool // *[]byte, what a shared flight is built in
	counts   counts
	pending  atomic.Int64  // bytes of the bodies held
	rolled   atomic.Uint64 // bytes of logs sent, for the rolling part of the route
	running  atomic.Bool
	stopping chan struct{} // closed when Run's context ends
}

// NewPublisher makes a publisher; Run starts it.
func NewPublisher(t *Topology, cfg PublisherConfig) (*Publisher, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("publisher: %w", err)
	}
	cfg.setDefaults(t.MaxMessage())
	p := &Publisher{
		t:        t,
		cfg:      cfg,
		lanes:    make(map[record.Kind][]*lane),
		link:     newLink(t.nc),
		stopping: make(chan struct{}),
	}
	p.buffers.New = func() any { return new([]byte) }
	for _, kind := range []record.Kind{record.KindLog, record.KindEvent} {
		for shard := range t.Shards() {
			p.lanes[kind] = append(p.lanes[kind], newLane(p, kind, shard))
		}
	}
	return p, nil
}

// Run carries messages to the queue until ctx ends, then sends what is
// waiting, waits for the answers and returns nil. It runs once.
func (p *Publisher) Run(ctx context.Context) error {
	if p.running.Swap(true) {
		return errors.New("publisher: Run was called before")
	}
	linkCtx, stopLink := context.WithCancel(context.WithoutCancel(ctx))
	var linkDone sync.WaitGroup
	linkDone.Go(func() { p.link.watch(linkCtx) })
	context.AfterFunc(ctx, func() { close(p.stopping) })

	var group errgroup.Group
	for _, lanes := range p.lanes {
		for _, lane := range lanes {
			group.Go(func() error {
				lane.run(p.stopping)
				return nil
			})
		}
	}
	err := group.Wait()
	stopLink()
	linkDone.Wait()
	return err
}

// Publish returns when the queue has the message on disk, or with an error:
// ErrFull, ErrBusy, ErrUnavailable, ErrTooLarge, ErrClosed or the context's
// own. Nothing was accepted then, unless the error is also ErrUnknown. Nothing
// is sent twice; to try again without storing twice, give an ID.
func (p *Publisher) Publish(ctx context.Context, m Message) (Ack, error) {
	e, err := p.admit(m)
	if err != nil {
		return Ack{}, err
	}
	select {
	case e.lane.in <- e:
	case <-p.stopping:
		p.pending.Add(-int64(e.size))
		return Ack{}, fmt.Errorf("publish: %w", ErrClosed)
	case <-ctx.Done():
		p.pending.Add(-int64(e.size))
		return Ack{}, fmt.Errorf("publish: nothing was accepted: %w", context.Cause(ctx))
	}
	select {
	case r := <-e.settled:
		return r.ack, r.err
	case <-ctx.Done():
		return e.leave(ctx)
	}
}

// Stats counts what a Publisher has done since it was made.
type Stats struct {
	Bodies   uint64 // accepted calls of Publish
	Records  uint64 // what those held
	Messages uint64 // what they became on the queue
	Pending  int64  // bytes held now
}

type counts struct{ bodies, records, messages atomic.Uint64 }

// Stats is the counts so far. Bodies over Messages tells how well group
// commit works.
func (p *Publisher) Stats() Stats {
	return Stats{
		Bodies:   p.counts.bodies.Load(),
		Records:  p.counts.records.Load(),
		Messages: p.counts.messages.Load(),
		Pending:  p.pending.Load(),
	}
}

// admit checks a message, chooses its lane and reserves its bytes.
func (p *Publisher) admit(m Message) (*entry, error) {
	size := m.size()
	if size == 0 {
		return nil, errors.New("publish: the message is empty")
	}
	lanes, ok := p.lanes[m.Kind]
	if !ok {
		return nil, fmt.Errorf("publish: unknown kind %d", m.Kind)
	}
	messages, err := p.pack(m.Parts)
	if err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	if !p.link.up() {
		return nil, fmt.Errorf("publish: %w: %w", ErrUnavailable, errLinkDown)
	}
	if held := p.pending.Add(int64(size)); held > p.cfg.MaxPending && held > int64(size) {
		p.pending.Add(-int64(size))
		return nil, fmt.Errorf("publish: %w: %d bytes are waiting", ErrBusy, held-int64(size))
	}
	shard := route(&m, p.roll(&m, size), len(lanes))
	return newEntry(lanes[shard], &m, size, messages), nil
}

// roll advances the rolling part of the route by the bytes of a log without a
// key. It is one for the process: all that arrives within a window meets in
// as few groups as there are shards.
func (p *Publisher) roll(m *Message, size int) uint64 {
	if m.Kind != record.KindLog || m.ID != "" {
		return 0
	}
	return p.rolled.Add(uint64(size)) / rollBytes
}

// pack joins neighbouring parts into as few messages as may be.
func (p *Publisher) pack(parts [][]byte) ([][][]byte, error) {
	var messages [][][]byte
	start, size := 0, 0
	for i, part := range parts {
		if len(part) > p.t.MaxMessage() {
			return nil, fmt.Errorf("%w: part %d has %d bytes, the most is %d", ErrTooLarge, i, len(part), p.t.MaxMessage())
		}
		if i > start && size+len(part) > p.cfg.MaxGroupBytes {
			messages = append(messages, parts[start:i])
			start, size = i, 0
		}
		size += len(part)
	}
	messages = append(messages, parts[start:])
	if len(messages) > maxBatch {
		return nil, fmt.Errorf("%w: it needs %d messages, the most is %d", ErrTooLarge, len(messages), maxBatch)
	}
	return messages, nil
}
