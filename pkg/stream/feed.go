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
	pullExpires = 30 * time.Second
	// heartbeat is how often the server shows life while there is nothing to
	// deliver; two missed ones end the feed.
	heartbeat = 2 * time.Second
	// statusRoom is for the heartbeats and the end of one pull.
	statusRoom = 64
	// The server forgets a consumer that nobody asks for so long, such as that
	// of a killed process.
	inactiveThreshold = time.Minute
)

var (
	errFeedSilent = errors.New("no message and no heartbeat")
	errFeedLost   = errors.New("a message was lost on the way")
)

// feed is one server-side consumer with its inbox. It lives until the first
// irregularity, and is then replaced by a new one that starts at the next
// sequence: so nothing about it needs to be repaired.
//
// What the server may send is bounded by one pull request at a time, which is
// renewed when all that it brought has been taken.
type feed struct {
	t        *Topology
	cfg      ConsumerConfig
	stream   string
	name     string // of the server's consumer
	inbox    string
	sub      *nats.Subscription
	messages chan *nats.Msg // room for all that a pull may bring, so that nats.go drops none
	left     int            // messages that the pull may still bring
	consumed uint64         // the server's count of deliveries, to see that none is missing
	silence  *time.Timer
}

func openFeed(ctx context.Context, t *Topology, stream string, from uint64, cfg ConsumerConfig) (*feed, error) {
	f := &feed{
		t:        t,
		cfg:      cfg,
		stream:   stream,
		name:     nuid.Next(),
		inbox:    t.nc.NewInbox(),
		messages: make(chan *nats.Msg, cfg.MaxMessages+statusRoom),
		silence:  time.NewTimer(2 * heartbeat),
	}
	if _, err := t.js.CreateConsumer(ctx, stream, f.consumerConfig(from)); err != nil {
		return nil, fmt.Errorf("consumer of stream %s: %w", stream, err)
	}
	var err error
	if f.sub, err = t.nc.ChanSubscribe(f.inbox, f.messages); err != nil {
		return nil, fmt.Errorf("consumer of stream %s: %w", stream, err)
	}
	if err := f.pull(); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *feed) consumerConfig(from uint64) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Name:              f.name,
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       from,
		AckPolicy:         jetstream.AckNonePolicy,
		FilterSubject:     f.cfg.Subject,
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

func (f *feed) pull() error {
	f.left = f.cfg.MaxMessages
	body, err := json.Marshal(pullRequest{
		Batch:     f.cfg.MaxMessages,
		MaxBytes:  f.cfg.MaxBytes,
		Expires:   pullExpires,
		Heartbeat: heartbeat,
	})
	if err != nil {
		return fmt.Errorf("pull from stream %s: %w", f.stream, err)
	}
	subject := f.t.apiSubject("CONSUMER.MSG.NEXT." + f.stream + "." + f.name)
	if err := f.t.nc.PublishRequest(subject, f.inbox, body); err != nil {
		return fmt.Errorf("pull from stream %s: %w", f.stream, err)
	}
	return nil
}

// take deals with what came in: a message, or a status line, which has no
// reply subject. It reports whether there is a message; an error ends the feed.
func (f *feed) take(m *nats.Msg) (Delivery, bool, error) {
	f.silence.Reset(2 * heartbeat)
	if m.Reply == "" {
		return Delivery{}, false, f.status(m)
	}
	meta, err := m.Metadata()
	if err != nil {
		return Delivery{}, false, fmt.Errorf("message of stream %s: %w", f.stream, err)
	}
	if f.consumed++; meta.Sequence.Consumer != f.consumed {
		return Delivery{}, false, errFeedLost
	}
	if f.left--; f.left == 0 {
		if err := f.pull(); err != nil {
			return Delivery{}, false, err
		}
	}
	return f.delivery(m, meta), true, nil
}

// status tells what leaves the feed as it is (a heartbeat; the end of a pull
// that brought its last message, which was renewed then) and the end of a pull
// by time or bytes from the end of the consumer.
func (f *feed) status(m *nats.Msg) error {
	code, text := m.Header.Get("Status"), m.Header.Get("Description")
	switch {
	case code == "100", strings.Contains(text, "Batch Completed"):
		return nil
	case code == "408", strings.Contains(text, "Exceeds MaxBytes"):
		return f.pull()
	}
	return fmt.Errorf("consumer of stream %s ended: %s %s", f.stream, code, text)
}

func (f *feed) delivery(m *nats.Msg, meta *nats.MsgMetadata) Delivery {
	return Delivery{
		Stream:  f.stream,
		Subject: m.Subject,
		Seq:     meta.Sequence.Stream,
		Time:    meta.Timestamp,
		Data:    m.Data,
		Pending: meta.NumPending,
	}
}

// close ends the feed. The server's consumer is told to go without waiting for
// the answer: it would go by itself a minute later.
func (f *feed) close() {
	f.silence.Stop()
	if err := f.sub.Unsubscribe(); err != nil {
		return // the connection is closed or away, and the consumer with it
	}
	subject := f.t.apiSubject("CONSUMER.DELETE." + f.stream + "." + f.name)
	if err := f.t.nc.Publish(subject, nil); err != nil {
		f.t.log.Debug("consumer not deleted", "stream", f.stream, "err", err)
	}
}
