package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	defaultFetchBytes    = 32 << 20
	defaultFetchMessages = 1024
)

// Delivery is one message of a stream.
type Delivery struct {
	Stream  string
	Subject string
	Seq     uint64
	Time    time.Time // when the queue stored it; part of a row's identity
	Data    []byte    // the receiver's own
	Pending uint64    // messages of the stream that come after this one
}

// ConsumerConfig bounds what a Consumer fetches ahead.
type ConsumerConfig struct {
	// MaxBytes is the most that is fetched ahead, in bytes; it is raised to
	// the size of the largest message. Default 32 MiB.
	MaxBytes int
	// MaxMessages is the same in messages. Default 1024.
	MaxMessages int
	// Subject reads only the messages of one subject, such as
	// NotifySubject(0). Default: all. What is passed over counts as read, and
	// so a purge of it while reading is no gap.
	Subject string
}

// Validate names the first setting that cannot work.
func (c ConsumerConfig) Validate() error {
	switch {
	case c.MaxBytes < 0:
		return fmt.Errorf("setting MaxBytes is %d: give 0 or more", c.MaxBytes)
	case c.MaxMessages < 0:
		return fmt.Errorf("setting MaxMessages is %d: give 0 or more", c.MaxMessages)
	}
	return nil
}

// GapError tells that a stream does not continue where a reader left off:
// messages in between were removed (Got is above Want), or the queue was lost
// or restored from an older copy (Got is below Want). Got is the sequence that
// the stream has next.
type GapError struct {
	Stream    string
	Want, Got uint64
}

// Error tells what is missing.
func (e *GapError) Error() string {
	if e.Got < e.Want {
		return fmt.Sprintf("stream %s goes on at %d, which was read already: it was lost or restored, wanted %d", e.Stream, e.Got, e.Want)
	}
	return fmt.Sprintf("stream %s lacks messages %d to %d", e.Stream, e.Want, e.Got-1)
}

// Consumer reads a stream in order from a sequence on. It acknowledges
// nothing. When the queue goes away it waits and goes on where it was; it
// never passes over a message. One goroutine at a time may use it.
type Consumer struct {
	t       *Topology
	stream  string
	want    uint64 // the sequence to read next; 0: whatever is the oldest
	cfg     ConsumerConfig
	changes chan nats.Status // tells that the connection was lost since, and is back or closed
	feed    *feed            // nil while there is none
	closed  bool
}

// Consume starts reading a stream at from; 0 starts with the oldest message
// there is. It waits for the queue until ctx ends, and fails with a GapError
// when the stream does not hold what comes at from.
func (t *Topology) Consume(ctx context.Context, stream string, from uint64, cfg ConsumerConfig) (*Consumer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("consume %s: %w", stream, err)
	}
	cfg.MaxMessages = orDefault(cfg.MaxMessages, defaultFetchMessages)
	cfg.MaxBytes = max(orDefault(cfg.MaxBytes, defaultFetchBytes), int(t.nc.MaxPayload())+headroom)
	c := &Consumer{t: t, stream: stream, want: from, cfg: cfg}
	c.changes = t.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	if err := c.reopen(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Next returns the next message. It fails with a GapError, with ErrClosed when
// the consumer or its connection was closed, or when ctx ends; after the latter
// it may be called again.
func (c *Consumer) Next(ctx context.Context) (Delivery, error) {
	for {
		if c.closed {
			return Delivery{}, fmt.Errorf("consume %s: %w", c.stream, ErrClosed)
		}
		if c.feed == nil {
			if err := c.reopen(ctx); err != nil {
				return Delivery{}, err
			}
		}
		delivery, err := c.receive(ctx)
		switch {
		case err == nil:
			return c.accept(delivery)
		case ctx.Err() != nil:
			return Delivery{}, fmt.Errorf("consume %s: %w", c.stream, context.Cause(ctx))
		}
		c.t.log.DebugContext(ctx, "consumer starts again", "stream", c.stream, "seq", c.want, "err", err)
		c.drop()
	}
}

// accept checks that a message is the one that comes next. The feed has made
// sure that nothing was lost on the way from the server.
func (c *Consumer) accept(delivery Delivery) (Delivery, error) {
	if c.want != 0 && c.cfg.Subject == "" && delivery.Seq != c.want {
		c.drop()
		return Delivery{}, &GapError{Stream: c.stream, Want: c.want, Got: delivery.Seq}
	}
	c.want = delivery.Seq + 1
	return delivery, nil
}

// receive waits for the feed's next message. An error other than ctx's means
// that the feed is spent.
func (c *Consumer) receive(ctx context.Context) (Delivery, error) {
	for {
		m, err := c.await(ctx)
		if err != nil {
			return Delivery{}, err
		}
		if delivery, ok, err := c.feed.take(m); ok || err != nil {
			return delivery, err
		}
	}
}

// await looks at what is there before it waits: the timer of the feed's
// silence runs on while the caller is busy elsewhere.
func (c *Consumer) await(ctx context.Context) (*nats.Msg, error) {
	select {
	case m := <-c.feed.messages:
		return m, nil
	default:
	}
	select {
	case m := <-c.feed.messages:
		return m, nil
	case <-c.feed.silence.C:
		return nil, errFeedSilent
	case <-c.changes:
		return nil, errLinkDown
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// reopen opens a feed at the sequence to read next, and tries until ctx ends.
func (c *Consumer) reopen(ctx context.Context) error {
	again := newRetries(c.t.log)
	for {
		err := c.open(ctx)
		if err == nil {
			return nil
		}
		if _, gap := errors.AsType[*GapError](err); gap {
			return err
		}
		if c.t.nc.IsClosed() {
			c.closed = true
			return fmt.Errorf("consume %s: %w: %w", c.stream, ErrClosed, err)
		}
		again.tell(ctx, "stream not reached", "stream", c.stream, "seq", c.want, "err", err)
		if err := again.pause(ctx); err != nil {
			return fmt.Errorf("consume %s: %w", c.stream, err)
		}
	}
}

// open checks that the stream goes on where this reader is, and opens a feed.
// It has a time limit of its own, for a request that was sent before the
// connection broke is never answered.
func (c *Consumer) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for len(c.changes) > 0 {
		<-c.changes // older than the feed that is opened here
	}
	info, err := c.t.Info(ctx, c.stream)
	if err != nil {
		return err
	}
	switch {
	case c.want == 0:
	case c.want < info.FirstSeq:
		return &GapError{Stream: c.stream, Want: c.want, Got: info.FirstSeq}
	case c.want > info.LastSeq+1:
		return &GapError{Stream: c.stream, Want: c.want, Got: info.LastSeq + 1}
	}
	c.feed, err = openFeed(ctx, c.t, c.stream, max(c.want, 1), c.cfg)
	return err
}

func (c *Consumer) drop() {
	if c.feed != nil {
		c.feed.close()
		c.feed = nil
	}
}

// Close ends the reading.
func (c *Consumer) Close() {
	c.drop()
	c.closed = true
	c.t.nc.RemoveStatusListener(c.changes)
}

// Refetch reads the messages from..to of a stream again, both included. It
// fails with a GapError when the stream no longer holds them, and when they
// are not there yet. All of them are held at once: the caller bounds the range.
func (t *Topology) ReadRange(ctx context.Context, stream string, from, to uint64) ([]Delivery, error) {
	info, err := t.Info(ctx, stream)
	if err != nil {
		return nil, err
	}
	switch {
	case from == 0 || from > to:
		return nil, fmt.Errorf("read %d to %d of stream %s: give a range from 1 on", from, to, stream)
	case to > info.LastSeq:
		return nil, fmt.Errorf("read %d to %d of stream %s: %w", from, to, stream,
			&GapError{Stream: stream, Want: to, Got: info.LastSeq + 1})
	}
	c, err := t.Consume(ctx, stream, from, ConsumerConfig{})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	deliveries := make([]Delivery, 0, min(to-from+1, defaultFetchMessages))
	for range to - from + 1 {
		delivery, err := c.Next(ctx)
		if err != nil {
			return nil, err
		}
		deliveries = append(deliveries, delivery)
	}
	return deliveries, nil
}
