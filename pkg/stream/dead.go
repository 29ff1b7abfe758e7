package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Headers of a dead letter.
const (
	HeaderReason  = "Logboom-Reason"
	HeaderStream  = "Logboom-Stream"
	HeaderSubject = "Logboom-Subject"
	HeaderSeq     = "Logboom-Seq"
	HeaderTime    = "Logboom-Time"
	HeaderDetail  = "Logboom-Detail"
)

const (
	maxReason = 64
	maxDetail = 2 << 10 // with the other headers well below headroom
)

// DeadLetter is a message that cannot be stored or delivered.
type DeadLetter struct {
	// Reason is a short code from a closed set of the caller's.
	Reason string
	// Stream and Seq say where the message was read; a Seq of 0 that it never
	// was on a stream. Who names both says that the message is stored nowhere:
	// Replay puts it back there.
	Stream string
	Seq    uint64
	// Subject is what the message was published to, where that is known: it
	// tells whether an event asks for a notification.
	Subject string
	// Time is when the queue had stored it.
	Time time.Time
	// Data is the message as it was.
	Data []byte
	// Detail is what an operator should know, at most 2 KiB of it are kept.
	// It must not repeat a secret or a payload.
	Detail string
}

// Bury puts a dead letter on the DEAD stream and returns when it is on disk,
// or with the errors of Publish. The same message buried again for the same
// reason is stored once, for as long as its letter is there.
func (t *Topology) PublishDeadLetter(ctx context.Context, letter DeadLetter) error {
	m, err := letter.message()
	if err != nil {
		return fmt.Errorf("bury: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, defaultAckTimeout, errNoAnswer)
	defer cancel()
	if _, err := request(ctx, t.nc, m); err != nil && !buriedBefore(err) {
		return fmt.Errorf("bury message %d of %s: %w", letter.Seq, letter.Stream, err)
	}
	return nil
}

// buriedBefore tells the refusal of a letter whose subject has one already.
func buriedBefore(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// message spells the letter as the DEAD stream holds it. Its subject is
// dead.<stream>.<reason>, so that letters can be listed by it, and .<seq> where
// it has one, so that the server itself can tell that it is there already.
func (letter *DeadLetter) message() (*nats.Msg, error) {
	if !isToken(letter.Reason) || !isToken(letter.Stream) {
		return nil, errors.New("the reason and the stream must be words of a-z, 0-9, _ and -")
	}
	m := &nats.Msg{
		Subject: "dead." + letter.Stream + "." + letter.Reason,
		Data:    letter.Data,
		Header: nats.Header{
			HeaderReason: {letter.Reason},
			HeaderStream: {letter.Stream},
			HeaderSeq:    {strconv.FormatUint(letter.Seq, 10)},
			HeaderTime:   {letter.Time.UTC().Format(time.RFC3339Nano)},
			HeaderDetail: {headerText(letter.Detail)},
		},
	}
	if letter.Subject != "" {
		m.Header[HeaderSubject] = []string{headerText(letter.Subject)}
	}
	if letter.Seq != 0 {
		m.Subject += "." + strconv.FormatUint(letter.Seq, 10)
		m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{"0"}
	}
	return m, nil
}

func isToken(s string) bool {
	if s == "" || len(s) > maxReason {
		return false
	}
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' {
			return false
		}
	}
	return true
}

// headerText cuts a text and makes it fit a header line.
func headerText(s string) string {
	s = strings.ToValidUTF8(s[:min(len(s), maxDetail)], "")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}
