package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// Headers of nats-server; those of batches are set by hand, because nats.go
// has no publisher for them.
const (
	headerID            = "Nats-Msg-Id"
	headerBatchID       = "Nats-Batch-Id"
	headerBatchSequence = "Nats-Batch-Sequence"
	headerBatchCommit   = "Nats-Batch-Commit"
)

// errBatchDuplicate: an atomic batch held a key that the stream knows, so none
// of it was stored.
var errBatchDuplicate = errors.New("a key in the batch is known already")

// pubAck is the server's answer to a message, or to the commit of a batch.
type pubAck struct {
	Error     *jetstream.APIError `json:"error"`
	Stream    string              `json:"stream"`
	Seq       uint64              `json:"seq"`
	Duplicate bool                `json:"duplicate"`
}

// markBatch makes messages one atomic batch. The server stages them and, at
// the one marked commit, checks all (keys, room in the stream) and stores all
// or none; a batch that is not committed within 10 s is dropped.
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
