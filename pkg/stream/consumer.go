package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

const (
	defaultFetchBytes    = 32 << 20
	defaultFetchMessages = 1024
)

// Delivery is one message read from a stream.
type Delivery struct {
	Stream  string
	Subject string
	Seq     uint64
	Time    time.Time // when the queue stored it; part of a row's identity
	Data    []byte    // owned by the caller
	Pending uint64    // number of messages of the stream after this one
}

// ConsumerConfig bounds what a Consumer fetches ahead.
type ConsumerConfig struct {
	// MaxBytes bounds what is fetched ahead, in bytes. It is at least the size of
	// the largest message. Default 32 MiB.
	MaxBytes int
	// MaxMessages bounds the same in messages. Default 1024.
	MaxMessages int
	// Subject filters the messages by subject, such as NotifySubject(0). Default:
	// all. Messages of other subjects count as read, so purging them is no gap.
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

// GapError means that a stream does not continue at the sequence that a reader
// wants: messages were removed (Got is above Want), or the queue was lost or
// restored from an older copy (Got is below Want). Got is the next sequence of
// the stream.
type GapError struct {
	Stream    string
	Want, Got uint64
}

// Error implements error.
func (e *GapError) Error() string {
	if e.Got < e.Want {
		return fmt.Sprintf("stream %s continues at %d, want %d: it was lost, or restored from an older copy", e.Stream, e.Got, e.Want)
	}
	return fmt.Sprintf("stream %s lacks messages %d to %d", e.Stream, e.Want, e.Got-1)
}

// Consumer reads a stream in order from a sequence on. It acknowledges nothing.
// When the queue is away it waits and then continues where it was; it never skips
// a message. One goroutine at a time may use it.
type Consumer struct {
	t       *Topology
	stream  string
	want    uint64 // the sequence to read next; 0: the oldest
	cfg     ConsumerConfig
	changes chan nats.Status // receives when the connection came back or was closed
	source  *source          // nil while there is none
	closed  bool
}

// Consume starts to read a stream at from, or at its oldest message where from is
// 0. It waits for the queue until ctx ends, and fails with a GapError where the
// stream does not have the message from and is not about to get it.
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

// Next returns the next message. It fails with a GapError, with ErrClosed after
// the consumer or its connection was closed, or when ctx ends; in the last case
// the caller may call it again.
func (c *Consumer) Next(ctx context.Context) (Delivery, error) {
	for {
		if c.closed {
			return Delivery{}, fmt.Errorf("consume %s: %w", c.stream, ErrClosed)
		}
		if c.source == nil {
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
		c.t.log.DebugContext(ctx, "consumer restarted", "stream", c.stream, "seq", c.want, "err", err)
		c.drop()
	}
}

// accept checks that a message is the next one of the stream. The source has
// checked that none was lost on the way from the server.
func (c *Consumer) accept(delivery Delivery) (Delivery, error) {
	if c.want != 0 && c.cfg.Subject == "" && delivery.Seq != c.want {
		c.drop()
		return Delivery{}, &GapError{Stream: c.stream, Want: c.want, Got: delivery.Seq}
	}
	c.want = delivery.Seq + 1
	return delivery, nil
}

// receive waits for the source's next message. After an error other than ctx's the
// source is of no more use.
func (c *Consumer) receive(ctx context.Context) (Delivery, error) {
	for {
		m, err := c.await(ctx)
		if err != nil {
			return Delivery{}, err
		}
		if delivery, ok, err := c.source.receive(m); ok || err != nil {
			return delivery, err
		}
	}
}

// await first takes a message that is there: the timer of the source's silence
// runs on while the caller is busy.
func (c *Consumer) await(ctx context.Context) (*nats.Msg, error) {
	select {
	case m := <-c.source.messages:
		return m, nil
	default:
	}
	select {
	case m := <-c.source.messages:
		return m, nil
	case <-c.source.silence.C:
		return nil, errSourceSilent
	case <-c.changes:
		return nil, errLinkDown
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// reopen opens a source at the sequence to read next. It retries until ctx ends.
func (c *Consumer) reopen(ctx context.Context) error {
	retry := newRetries(c.t.log)
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
		retry.report(ctx, "stream not reached", "stream", c.stream, "seq", c.want, "err", err)
		if err := retry.pause(ctx); err != nil {
			return fmt.Errorf("consume %s: %w", c.stream, err)
		}
	}
}

// open checks that the stream continues where this reader is, and opens a source.
// It has a timeout of its own: a request that was sent before the connection broke
// is never answered.
func (c *Consumer) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for len(c.changes) > 0 {
		<-c.changes // older than this source
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
	c.source, err = openSource(ctx, c.t, c.stream, max(c.want, 1), c.cfg)
	return err
}

func (c *Consumer) drop() {
	if c.source != nil {
		c.source.close()
		c.source = nil
	}
}

// Close stops reading.
func (c *Consumer) Close() {
	c.drop()
	c.closed = true
	c.t.nc.RemoveStatusListener(c.changes)
}

// ReadRange reads the messages from..to of a stream, both included. It fails with
// a GapError when the stream no longer has them, or does not have them yet. The
// caller bounds the range, because all messages are returned at once.
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

const (
	pullExpires = 30 * time.Second
	// heartbeat is how often the server sends a status line while there is nothing
	// to deliver. A source without two of them is given up.
	heartbeat = 2 * time.Second
	// statusRoom is the room for the status lines of one pull.
	statusRoom = 64
	// inactiveThreshold is after how long without a request the server deletes a
	// consumer, such as that of a killed process.
	inactiveThreshold = time.Minute
)

var (
	errSourceSilent = errors.New("no message and no heartbeat")
	errMessageLost  = errors.New("a message was lost on the way")
)

// source is one consumer on the server with its inbox. After the first error it is
// replaced by a new one that starts at the next sequence, so nothing about it
// needs to be repaired.
//
// One pull request at a time bounds what the server may send. The next one is sent
// once the caller has received all messages of the one before.
type source struct {
	t        *Topology
	cfg      ConsumerConfig
	stream   string
	name     string // of the server's consumer
	inbox    string
	sub      *nats.Subscription
	messages chan *nats.Msg // room for all messages of a pull, so that nats.go drops none
	left     int            // messages that may still come with this pull
	consumed uint64         // the server's count of deliveries, to detect a lost one
	silence  *time.Timer
}

func openSource(ctx context.Context, t *Topology, stream string, from uint64, cfg ConsumerConfig) (*source, error) {
	s := &source{
		t:        t,
		cfg:      cfg,
		stream:   stream,
		name:     nuid.Next(),
		inbox:    t.nc.NewInbox(),
		messages: make(chan *nats.Msg, cfg.MaxMessages+statusRoom),
		silence:  time.NewTimer(2 * heartbeat),
	}
	if _, err := t.js.CreateConsumer(ctx, stream, s.consumerConfig(from)); err != nil {
		return nil, fmt.Errorf("consumer of stream %s: %w", stream, err)
	}
	var err error
	if s.sub, err = t.nc.ChanSubscribe(s.inbox, s.messages); err != nil {
		return nil, fmt.Errorf("consumer of stream %s: %w", stream, err)
	}
	if err := s.pull(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *source) consumerConfig(from uint64) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Name:              s.name,
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       from,
		AckPolicy:         jetstream.AckNonePolicy,
		FilterSubject:     s.cfg.Subject,
		InactiveThreshold: inactiveThreshold,
		Replicas:          1,
		MemoryStorage:     true,
	}
}

// pullRequest is JetStream's $JS.API.CONSUMER.MSG.NEXT request.
type pullRequest struct {
	Batch     int           `json:"batch"`
	MaxBytes  int           `json:"max_bytes"`
	Expires   time.Duration `json:"expires"`
	Heartbeat time.Duration `json:"idle_heartbeat"`
}

func (s *source) pull() error {
	s.left = s.cfg.MaxMessages
	body, err := json.Marshal(pullRequest{
		Batch:     s.cfg.MaxMessages,
		MaxBytes:  s.cfg.MaxBytes,
		Expires:   pullExpires,
		Heartbeat: heartbeat,
	})
	if err != nil {
		return fmt.Errorf("pull from stream %s: %w", s.stream, err)
	}
	subject := s.t.apiSubject("CONSUMER.MSG.NEXT." + s.stream + "." + s.name)
	if err := s.t.nc.PublishRequest(subject, s.inbox, body); err != nil {
		return fmt.Errorf("pull from stream %s: %w", s.stream, err)
	}
	return nil
}

// receive decodes what arrived: a message, or a status line, which has no reply
// subject. It returns whether it is a message.
func (s *source) receive(m *nats.Msg) (Delivery, bool, error) {
	s.silence.Reset(2 * heartbeat)
	if m.Reply == "" {
		return Delivery{}, false, s.status(m)
	}
	meta, err := m.Metadata()
	if err != nil {
		return Delivery{}, false, fmt.Errorf("message of stream %s: %w", s.stream, err)
	}
	if s.consumed++; meta.Sequence.Consumer != s.consumed {
		return Delivery{}, false, errMessageLost
	}
	if s.left--; s.left == 0 {
		if err := s.pull(); err != nil {
			return Delivery{}, false, err
		}
	}
	return Delivery{
		Stream:  s.stream,
		Subject: m.Subject,
		Seq:     meta.Sequence.Stream,
		Time:    meta.Timestamp,
		Data:    m.Data,
		Pending: meta.NumPending,
	}, true, nil
}

// status acts on a status line: nothing on a heartbeat or on the end of a pull that
// delivered all its messages, a new pull where the old one ended by time or bytes,
// and an error where the consumer ended.
func (s *source) status(m *nats.Msg) error {
	code, text := m.Header.Get("Status"), m.Header.Get("Description")
	switch {
	case code == "100", strings.Contains(text, "Batch Completed"):
		return nil
	case code == "408", strings.Contains(text, "Exceeds MaxBytes"):
		return s.pull()
	}
	return fmt.Errorf("consumer of stream %s ended: %s %s", s.stream, code, text)
}

// close closes the source and deletes the server's consumer, without waiting for
// the answer: the server would delete it a minute later.
func (s *source) close() {
	s.silence.Stop()
	if err := s.sub.Unsubscribe(); err != nil {
		return // the connection is closed or away, and the consumer with it
	}
	subject := s.t.apiSubject("CONSUMER.DELETE." + s.stream + "." + s.name)
	if err := s.t.nc.Publish(subject, nil); err != nil {
		s.t.log.Debug("consumer not deleted", "stream", s.stream, "err", err)
	}
}
