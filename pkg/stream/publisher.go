package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/logboom/logboom/pkg/record"
)

const (
	defaultMaxGroupBytes = 512 << 10
	defaultMaxGroupWait  = 5 * time.Millisecond
	// One group in flight gathers best; a second keeps the disk busy while the next
	// large message travels (measured on one stream with 512 KiB: 231 → 278 MB/s).
	// 4 and 8 gained nothing.
	defaultMaxInFlight = 2
	defaultMaxPending  = 64 << 20
	defaultAckTimeout  = 5 * time.Second
	// maxBatch is how many messages the server accepts in one atomic batch.
	maxBatch = 1000
	// rollBytes is how many bytes of logs this process sends to one shard before it
	// goes on to the next: enough that small requests share a group, few enough
	// that a big project uses all shards.
	rollBytes = 256 << 10
)

// Message is one body of records for the queue.
type Message struct {
	Kind record.Kind // KindLog or KindEvent
	// Notify marks events that ask for a notification.
	Notify bool
	// Project determines the shard of events and, with the ID, of keyed logs.
	Project string
	// ID is the client's key, of any length, or empty. Messages with the same project
	// and ID within the stream's duplicate window are stored once. A message with
	// an ID is never joined with others.
	ID string
	// Parts are the sections of the body, each of at most Topology.MaxMessage bytes.
	// Parts that fit together become one message; a body that needs several
	// messages is stored all or nothing, in one stream. The caller may change them
	// once Publish has returned.
	Parts   [][]byte
	Records int // number of records in the parts, for Stats
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
	// Seq is the message's sequence; of a body in several messages, the sequence of
	// the last. It is 0 for a duplicate of such a body: the server does not return it.
	Seq uint64
	// Duplicate means that the ID was known and its message is stored already.
	Duplicate bool
}

// PublisherConfig bounds what a Publisher holds and how long it waits.
type PublisherConfig struct {
	// MaxGroupBytes bounds a message of several joined bodies. Default 512 KiB.
	MaxGroupBytes int
	// MaxGroupWait is the longest that a body waits for others to be joined with.
	// Default 5 ms.
	MaxGroupWait time.Duration
	// MaxInFlight is how many messages or batches of one stream may be
	// unacknowledged. Default 2. The server accepts 50 batches of one stream from
	// all its clients together.
	MaxInFlight int
	// MaxPending bounds the bytes of all bodies that wait. Default 64 MiB. A single
	// larger body is accepted when nothing else waits.
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

// Publisher publishes messages, and joins the small ones of many callers into one,
// so that one disk sync serves all of them. Its methods may be called
// concurrently. Publish sends only while Run runs.
type Publisher struct {
	t         *Topology
	cfg       PublisherConfig
	pipelines map[record.Kind][]*pipeline // by shard
	link      *link
	buffers   sync.Pool // *[]byte, for the messages of a group
	counts    counts
	pending   atomic.Int64  // bytes of the bodies that wait
	rolled    atomic.Uint64 // bytes of logs without an ID that were sent, for route
	running   atomic.Bool
	stopping  chan struct{} // closed when Run's context ends
}

// NewPublisher returns a publisher; Run starts it.
func NewPublisher(t *Topology, cfg PublisherConfig) (*Publisher, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("publisher: %w", err)
	}
	cfg.setDefaults(t.MaxMessage())
	p := &Publisher{
		t:         t,
		cfg:       cfg,
		pipelines: make(map[record.Kind][]*pipeline),
		link:      newLink(t.nc),
		stopping:  make(chan struct{}),
	}
	p.buffers.New = func() any { return new([]byte) }
	for _, kind := range []record.Kind{record.KindLog, record.KindEvent} {
		for shard := range t.Shards() {
			p.pipelines[kind] = append(p.pipelines[kind], newPipeline(p, kind, shard))
		}
	}
	return p, nil
}

// Run sends messages until ctx ends. Then it sends those that wait, waits for the
// answers and returns nil. Call it once.
func (p *Publisher) Run(ctx context.Context) error {
	if p.running.Swap(true) {
		return errors.New("publisher: Run was called before")
	}
	linkCtx, stopLink := context.WithCancel(context.WithoutCancel(ctx))
	var linkDone sync.WaitGroup
	linkDone.Go(func() { p.link.watch(linkCtx) })
	context.AfterFunc(ctx, func() { close(p.stopping) })

	var group sync.WaitGroup
	for _, pipelines := range p.pipelines {
		for _, pipeline := range pipelines {
			group.Go(func() { pipeline.run(p.stopping) })
		}
	}
	group.Wait()
	stopLink()
	linkDone.Wait()
	return nil
}

// Publish sends m and returns once the queue has it on disk. The errors are
// ErrFull, ErrBusy, ErrUnavailable, ErrTooLarge, ErrClosed and the context's own.
// After an error nothing was accepted, unless it is also ErrUnknown. Publish never
// sends twice; a caller that retries gives an ID so that m is stored once.
func (p *Publisher) Publish(ctx context.Context, m Message) (Ack, error) {
	b, err := p.admit(m)
	if err != nil {
		return Ack{}, err
	}
	select {
	case b.pipeline.in <- b:
	case <-p.stopping:
		p.pending.Add(-int64(b.size))
		return Ack{}, fmt.Errorf("publish: %w", ErrClosed)
	case <-ctx.Done():
		p.pending.Add(-int64(b.size))
		return Ack{}, fmt.Errorf("publish: nothing was accepted: %w", context.Cause(ctx))
	}
	select {
	case r := <-b.result:
		return r.ack, r.err
	case <-ctx.Done():
		return b.withdraw(ctx)
	}
}

// Stats counts what a Publisher has done since it was created.
type Stats struct {
	Bodies   uint64 // accepted calls of Publish
	Records  uint64 // in those
	Messages uint64 // that they became on the queue
	Pending  int64  // bytes that wait now
}

type counts struct{ bodies, records, messages atomic.Uint64 }

// Stats returns the counts so far. Bodies divided by Messages shows how many
// bodies share a disk sync.
func (p *Publisher) Stats() Stats {
	return Stats{
		Bodies:   p.counts.bodies.Load(),
		Records:  p.counts.records.Load(),
		Messages: p.counts.messages.Load(),
		Pending:  p.pending.Load(),
	}
}

// admit checks a message, chooses its pipeline and reserves its bytes.
func (p *Publisher) admit(m Message) (*body, error) {
	size := m.size()
	if size == 0 {
		return nil, errors.New("publish: the message is empty")
	}
	pipelines, ok := p.pipelines[m.Kind]
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
	shard := route(&m, p.roll(&m, size), len(pipelines))
	return newBody(pipelines[shard], &m, size, messages), nil
}

// roll adds the bytes of a log without an ID and returns the rolling part of its
// route. The count is one for the process, so that logs that arrive together
// share a group.
func (p *Publisher) roll(m *Message, size int) uint64 {
	if m.Kind != record.KindLog || m.ID != "" {
		return 0
	}
	return p.rolled.Add(uint64(size)) / rollBytes
}

// pack joins neighbouring parts into as few messages as possible.
func (p *Publisher) pack(parts [][]byte) ([][][]byte, error) {
	var messages [][][]byte
	start, size := 0, 0
	for i, part := range parts {
		if len(part) > p.t.MaxMessage() {
			return nil, fmt.Errorf("%w: part %d has %d bytes, limit %d", ErrTooLarge, i, len(part), p.t.MaxMessage())
		}
		if i > start && size+len(part) > p.cfg.MaxGroupBytes {
			messages = append(messages, parts[start:i])
			start, size = i, 0
		}
		size += len(part)
	}
	messages = append(messages, parts[start:])
	if len(messages) > maxBatch {
		return nil, fmt.Errorf("%w: it needs %d messages, limit %d", ErrTooLarge, len(messages), maxBatch)
	}
	return messages, nil
}
