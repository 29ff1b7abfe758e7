package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"golang.org/x/sync/errgroup"
)

// minKeyedBatch is how many keyed bodies are worth an atomic batch. The server
// creates and removes a folder for each batch, so fewer cost more than one sync
// each (measured on 2 cores: 16 a batch 1,400/s, singly 3,000/s; 500 a batch
// 26,000/s).
const minKeyedBatch = 64

// Headers of nats-server. nats.go has no publisher for batches.
const (
	headerID            = "Nats-Msg-Id"
	headerBatchID       = "Nats-Batch-Id"
	headerBatchSequence = "Nats-Batch-Sequence"
	headerBatchCommit   = "Nats-Batch-Commit"
)

// errBatchDuplicate means that an atomic batch held a key that the stream knows,
// so that none of the batch was stored.
var errBatchDuplicate = errors.New("a key in the batch is known already")

// group is the bodies that travel together: bodies without a key joined into one
// message; keyed bodies, each its own message, one by one or in one atomic batch;
// or one large body in an atomic batch of its own.
type group struct {
	pipeline *pipeline
	bodies   []*body
	bytes    int
	copied   chan struct{} // closed when the callers' bytes are no longer read
	released bool          // copied is closed
}

func newGroup(l *pipeline) *group {
	return &group{pipeline: l, copied: make(chan struct{})}
}

// fits returns whether a body may travel with those in the group.
func (g *group) fits(b *body) bool {
	if len(g.bodies) == 0 {
		return true
	}
	first := g.bodies[0]
	switch {
	case b.large() || first.large() || g.bytes+b.size > g.pipeline.publisher.cfg.MaxGroupBytes:
		return false
	case first.id != "":
		return b.id != "" && len(g.bodies) < maxBatch
	}
	return b.id == "" && b.subject == first.subject
}

func (g *group) add(b *body) {
	g.bodies = append(g.bodies, b)
	g.bytes += b.size
}

// reject finishes every body with an error, without sending anything.
func (g *group) reject(err error) {
	g.release()
	g.fail(err)
}

// release lets callers return whose contexts have ended.
func (g *group) release() {
	if !g.released {
		g.released = true
		close(g.copied)
	}
}

func (g *group) fail(err error) {
	for _, b := range g.bodies {
		b.finish(Ack{}, err)
	}
}

// publish sends the group, waits for the answer and finishes every body. It
// returns the error, for the pipeline.
func (g *group) publish() error {
	p := g.pipeline.publisher
	connected := p.link.context()
	if connected.Err() != nil {
		err := fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(connected))
		g.reject(err)
		return err
	}
	buffer := p.buffers.Get().(*[]byte)
	defer p.buffers.Put(buffer)
	messages := g.messages(buffer)
	keyed := g.bodies[0].id != "" && !g.bodies[0].large()
	if keyed && len(messages) < minKeyedBatch {
		return g.publishEach(connected, messages)
	}
	ctx, cancel := context.WithTimeoutCause(connected, p.cfg.AckTimeout, errNoAnswer)
	defer cancel()
	ack, err := g.send(ctx, messages)
	switch {
	case errors.Is(err, errBatchDuplicate) && keyed:
		// Any of the keys may be the known one. The rejected batch stored nothing, so
		// sending each body by itself stores none twice.
		return g.publishEach(connected, messages)
	case errors.Is(err, errBatchDuplicate):
		// Only the first message of a large body has a key: all of it is stored.
		g.bodies[0].finish(Ack{Stream: g.pipeline.stream, Duplicate: true}, nil)
		return nil
	case err != nil:
		g.fail(err)
		return err
	}
	g.finish(ack)
	return nil
}

// messages encodes the bodies. What several callers share is copied to the buffer,
// so that each caller may return while the group is in flight. A large body is
// copied only where parts are joined, and in its last message, which the wait for
// the answer holds.
func (g *group) messages(buffer *[]byte) []*nats.Msg {
	first := g.bodies[0]
	if first.large() {
		return largeBody(first)
	}
	defer g.release()
	data := slices.Grow((*buffer)[:0], g.bytes) // once, or the slices below would move
	defer func() { *buffer = data }()
	if first.id == "" {
		for _, b := range g.bodies {
			data = appendParts(data, b.messages[0])
		}
		return []*nats.Msg{newMessage(first.subject, "", data)}
	}
	messages := make([]*nats.Msg, len(g.bodies))
	for i, b := range g.bodies {
		start := len(data)
		data = appendParts(data, b.messages[0])
		messages[i] = newMessage(b.subject, b.id, data[start:])
	}
	return messages
}

// largeBody returns one message for each pack of parts. Only the first carries
// the ID. It stands for the whole body, which is stored all or nothing, so a
// repeat is known even when it is cut in other places.
func largeBody(b *body) []*nats.Msg {
	messages := make([]*nats.Msg, len(b.messages))
	for i, parts := range b.messages {
		data := parts[0]
		if len(parts) > 1 || i == len(messages)-1 {
			data = appendParts(nil, parts)
		}
		messages[i] = newMessage(b.subject, "", data)
	}
	if b.id != "" {
		messages[0].Header = nats.Header{headerID: {b.id}}
	}
	return messages
}

func appendParts(dst []byte, parts [][]byte) []byte {
	for _, part := range parts {
		dst = append(dst, part...)
	}
	return dst
}

func newMessage(subject, id string, data []byte) *nats.Msg {
	m := &nats.Msg{Subject: subject, Data: data}
	if id != "" {
		m.Header = nats.Header{headerID: {id}}
	}
	return m
}

// send sends the messages, all but the last without asking for an answer, and
// waits for the one answer.
func (g *group) send(ctx context.Context, messages []*nats.Msg) (pubAck, error) {
	nc := g.pipeline.publisher.t.nc
	last := messages[len(messages)-1]
	if len(messages) > 1 {
		markBatch(messages)
		for _, m := range messages[:len(messages)-1] {
			if err := nc.PublishMsg(m); err != nil {
				g.release()
				// Without its commit the server drops the batch.
				return pubAck{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
			}
		}
	}
	g.release()
	return request(ctx, nc, last)
}

// finish reports the one answer to every caller. The members of a keyed batch have
// consecutive sequences: the server stores a batch without a gap.
func (g *group) finish(ack pubAck) {
	first, messages := g.bodies[0], &g.pipeline.publisher.counts.messages
	seq, step := ack.Seq, uint64(0)
	switch {
	case first.large():
		messages.Add(uint64(len(first.messages)))
	case first.id != "":
		seq, step = ack.Seq-uint64(len(g.bodies)-1), 1
		messages.Add(uint64(len(g.bodies)))
	default:
		messages.Add(1)
	}
	for _, b := range g.bodies {
		b.finish(Ack{Stream: ack.Stream, Seq: seq, Duplicate: ack.Duplicate}, nil)
		seq += step
	}
}

// publishEach sends keyed messages one by one, without waiting for one's answer
// before it sends the next.
func (g *group) publishEach(connected context.Context, messages []*nats.Msg) error {
	p := g.pipeline.publisher
	ctx, cancel := context.WithTimeoutCause(connected, p.cfg.AckTimeout, errNoAnswer)
	defer cancel()
	var requests errgroup.Group
	requests.SetLimit(minKeyedBatch)
	for i, b := range g.bodies {
		requests.Go(func() error {
			ack, err := request(ctx, p.t.nc, newMessage(b.subject, b.id, messages[i].Data))
			if err == nil && !ack.Duplicate {
				p.counts.messages.Add(1)
			}
			b.finish(Ack{Stream: ack.Stream, Seq: ack.Seq, Duplicate: ack.Duplicate}, err)
			return err
		})
	}
	return requests.Wait()
}

// markBatch makes messages one atomic batch. The server stages them and, at the
// message marked as the commit, checks all of them (keys, room in the stream) and
// stores all or none. It drops a batch that is not committed within 10 s.
func markBatch(messages []*nats.Msg) {
	id := nuid.Next()
	for i, m := range messages {
		if m.Header == nil {
			m.Header = nats.Header{}
		}
		m.Header[headerBatchID] = []string{id}
		m.Header[headerBatchSequence] = []string{strconv.Itoa(i + 1)}
	}
	messages[len(messages)-1].Header[headerBatchCommit] = []string{"1"}
}

// pubAck is the server's answer to a message, or to the commit of a batch.
type pubAck struct {
	Error     *jetstream.APIError `json:"error"`
	Stream    string              `json:"stream"`
	Seq       uint64              `json:"seq"`
	Duplicate bool                `json:"duplicate"`
}

// request sends a message and waits for the queue's answer.
func request(ctx context.Context, nc *nats.Conn, m *nats.Msg) (pubAck, error) {
	response, err := nc.RequestMsgWithContext(ctx, m)
	if err != nil {
		return pubAck{}, sendFailure(ctx, err)
	}
	var ack pubAck
	if err := json.Unmarshal(response.Data, &ack); err != nil {
		return pubAck{}, fmt.Errorf("%w: %w: answer of the queue: %w", ErrUnavailable, ErrUnknown, err)
	}
	switch {
	case ack.Error != nil && ack.Error.ErrorCode == codeBatchDuplicate:
		return pubAck{}, errBatchDuplicate
	case ack.Error != nil:
		return pubAck{}, refusal(ack.Error)
	case ack.Stream == "" || ack.Seq == 0:
		return pubAck{}, fmt.Errorf("%w: %w: answer of the queue without a sequence", ErrUnavailable, ErrUnknown)
	}
	return ack, nil
}
