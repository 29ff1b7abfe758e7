package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Errors of Publish and PublishDeadLetter. Unless ErrUnknown is among them, nothing
// was accepted.
var (
	// ErrFull means that the stream, or the store behind it, has no room.
	ErrFull = errors.New("queue is full")
	// ErrBusy means that too much is waiting, in this process or in the queue.
	ErrBusy = errors.New("queue is busy")
	// ErrUnavailable means that the queue is away or does not answer.
	ErrUnavailable = errors.New("queue is unavailable")
	// ErrTooLarge means that the message, or one part of it, exceeds the limit.
	ErrTooLarge = errors.New("message is too large for the queue")
	// ErrClosed means that the publisher is stopping, or the consumer was closed.
	ErrClosed = errors.New("closed")
	// ErrUnknown comes with ErrUnavailable or with the context's error: the message
	// was sent but no answer came, so it may be stored or not.
	ErrUnknown = errors.New("message may or may not be stored")
)

// The causes for which a wait for an answer ends.
var (
	errLinkDown = errors.New("connection to the queue was lost")
	errNoAnswer = errors.New("no answer in time")
)

// Codes of nats-server 2.15 (server/errors.json) that nats.go does not name.
const (
	codeAccountFull     jetstream.ErrorCode = 10002
	codeIncomplete      jetstream.ErrorCode = 10004
	codeNoPeers         jetstream.ErrorCode = 10005
	codeNotAvailable    jetstream.ErrorCode = 10008
	codeServerFull      jetstream.ErrorCode = 10023
	codeStoreFull       jetstream.ErrorCode = 10047
	codeStoreFailed     jetstream.ErrorCode = 10077 // its description says which limit
	codeOffline         jetstream.ErrorCode = 10118
	codeTooManyRequests jetstream.ErrorCode = 10167
	codeBatchDuplicate  jetstream.ErrorCode = 10201
	codeTooManyBatches  jetstream.ErrorCode = 10210
)

// refusal returns the error for an answer with which the queue refused a message.
func refusal(api *jetstream.APIError) error {
	switch api.ErrorCode {
	case jetstream.JSErrCodeStreamMessageExceedsMaximum:
		return fmt.Errorf("%w: %w", ErrTooLarge, api)
	case codeStoreFailed:
		if strings.Contains(api.Description, "too large") {
			return fmt.Errorf("%w: %w", ErrTooLarge, api)
		}
		return fmt.Errorf("%w: %w", ErrFull, api)
	case codeAccountFull, codeServerFull, codeStoreFull:
		return fmt.Errorf("%w: %w", ErrFull, api)
	case codeTooManyRequests, codeTooManyBatches:
		return fmt.Errorf("%w: %w", ErrBusy, api)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, api)
}

// sendFailure returns the error for a message that could not be sent, or was not
// answered. ctx is the context of the wait.
func sendFailure(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	case neverSent(err):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w: %w", ErrUnavailable, ErrUnknown, context.Cause(ctx))
	}
	return fmt.Errorf("%w: %w: %w", ErrUnavailable, ErrUnknown, err)
}

// neverSent returns whether the queue cannot have the message. A closed connection
// proves nothing: it also ends a wait for an answer.
func neverSent(err error) bool {
	return errors.Is(err, nats.ErrNoResponders) ||
		errors.Is(err, nats.ErrReconnectBufExceeded)
}

// isAway returns whether err means that the queue is away. A refusal of one message
// says nothing about the next.
func isAway(err error) bool {
	_, refused := errors.AsType[*jetstream.APIError](err)
	return errors.Is(err, ErrUnavailable) && !refused
}

// notReady returns whether err is one of servers that start, or elect a leader, and
// so will pass.
func notReady(err error) bool {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		return slices.Contains([]jetstream.ErrorCode{codeIncomplete, codeNoPeers, codeNotAvailable, codeOffline, jetstream.JSErrCodeJetStreamNotEnabled}, api.ErrorCode)
	}
	return neverSent(err) || errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, context.DeadlineExceeded)
}
