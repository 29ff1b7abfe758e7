package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/record"
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
	// MaxLetterPage is the largest number of letters in one page.
	MaxLetterPage = 1000

	maxReason = 64
	maxDetail = 2 << 10 // with the other headers well below headroom
	// listTimeout bounds the wait for a page. Only headers travel: a thousand
	// letters are at most some 3 MB.
	listTimeout   = 5 * time.Second
	replayTimeout = 10 * time.Second // of all steps of a replay
)

// Why a letter is not found, or not replayed.
var (
	// ErrNoLetter means that no dead letter has the ID, or no longer.
	ErrNoLetter = errors.New("no such dead letter")
	// ErrNeverQueued means that the letter was never on a stream of logs or events,
	// so that it cannot be put back on one.
	ErrNeverQueued = errors.New("the dead letter never was on a stream")
	// ErrNotCommitted means that the stream's writer has not yet committed the
	// letter's message. Until then it may read the message again, and dead-letter or
	// store it by itself.
	ErrNotCommitted = errors.New("the writer has not committed the dead letter's message yet")
	// ErrNotRemoved comes with ErrUnavailable: the message is on its stream again,
	// but the letter could not be removed.
	ErrNotRemoved = errors.New("the dead letter is replayed but was not removed: replay it again at once")
)

// DeadLetter is a message that cannot be stored or delivered.
type DeadLetter struct {
	// Reason is a short code from a closed set of the caller's.
	Reason string
	// Stream and Seq say where the message was read; Seq is 0 where it never was on
	// a stream. A letter with both says that the message is stored nowhere: Replay
	// puts it back on the stream.
	Stream string
	Seq    uint64
	// Subject is what the message was published to, where that is known. It shows
	// whether an event asks for a notification.
	Subject string
	// Time is when the queue stored the message.
	Time time.Time
	// Data is the unchanged message.
	Data []byte
	// Detail helps an operator; at most 2 KiB of it are kept. It must not repeat a
	// secret or a payload.
	Detail string
}

// PublishDeadLetter writes a dead letter and returns once it is on disk. The
// errors are those of Publish. While a letter with the same stream, sequence and
// reason exists, it does nothing.
func (t *Topology) PublishDeadLetter(ctx context.Context, letter DeadLetter) error {
	m, err := letter.encode()
	if err != nil {
		return fmt.Errorf("publish dead letter: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, defaultAckTimeout, errNoAnswer)
	defer cancel()
	_, err = request(ctx, t.nc, m)
	if api, ok := errors.AsType[*jetstream.APIError](err); ok &&
		(api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant) {
		return nil // its subject has a letter already
	}
	if err != nil {
		return fmt.Errorf("publish dead letter of message %d of %s: %w", letter.Seq, letter.Stream, err)
	}
	return nil
}

// encode returns the letter as a message of the DEAD stream. Its subject is
// dead.<stream>.<reason>, so that letters can be filtered by it. A letter with a
// sequence has .<seq> too, so that the server refuses a second one.
func (letter *DeadLetter) encode() (*nats.Msg, error) {
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

// Letters lists and replays the dead letters of a queue. It creates nothing:
// where there is no queue yet there are no letters.
type Letters struct {
	js        jetstream.JetStream
	committed func(ctx context.Context, stream string) (uint64, error)
}

// NewLetters returns the letters of the queue behind a connection. committed
// reads up to where a stream's writer has committed; ledger.Committed does.
func NewLetters(js jetstream.JetStream, committed func(ctx context.Context, stream string) (uint64, error)) *Letters {
	return &Letters{js, committed}
}

// Letter is a dead letter on the DEAD stream. A listed one has no Data.
type Letter struct {
	ID    uint64 // its sequence on DEAD
	Bytes int    // of the data
	DeadLetter
}

// LetterPage is one page of letters, the oldest first.
type LetterPage struct {
	Letters []Letter
	Next    uint64 // pass it as after for the next page; 0: this is the last
}

// List returns up to limit letters, without their data, whose IDs are above
// after. The limit is 1 to MaxLetterPage. It fails with ErrUnavailable.
func (l *Letters) List(ctx context.Context, after uint64, limit int) (LetterPage, error) {
	if limit < 1 || limit > MaxLetterPage {
		return LetterPage{}, fmt.Errorf("list dead letters: limit %d: give 1 to %d", limit, MaxLetterPage)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, listTimeout, errNoAnswer)
	defer cancel()
	page, err := l.page(ctx, after, limit)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return LetterPage{}, nil
	}
	if err != nil {
		return LetterPage{}, fmt.Errorf("list dead letters after %d: %w: %w", after, ErrUnavailable, err)
	}
	return page, nil
}

// page reads through a consumer, because only a consumer can leave the data out.
func (l *Letters) page(ctx context.Context, after uint64, limit int) (page LetterPage, err error) {
	consumer, err := l.js.CreateConsumer(ctx, DeadStream, jetstream.ConsumerConfig{
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       after + 1,
		AckPolicy:         jetstream.AckNonePolicy,
		HeadersOnly:       true,
		InactiveThreshold: inactiveThreshold,
		Replicas:          1,
		MemoryStorage:     true,
	})
	if err != nil {
		return page, err
	}
	info := consumer.CachedInfo()
	// Where this fails the server deletes the consumer by itself later.
	defer func() { _ = l.js.DeleteConsumer(ctx, DeadStream, info.Name) }()
	if info.NumPending == 0 {
		return page, nil
	}
	batch, err := consumer.Fetch(int(min(info.NumPending, uint64(limit))), jetstream.FetchContext(ctx))
	if err != nil {
		return page, err
	}
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			return LetterPage{}, err
		}
		letter := decodeLetter(meta.Sequence.Stream, meta.Timestamp, m.Headers())
		if letter.Bytes, err = strconv.Atoi(m.Headers().Get(nats.MsgSize)); err != nil {
			return LetterPage{}, fmt.Errorf("letter %d has no size: %w", letter.ID, err)
		}
		page.Letters = append(page.Letters, letter)
	}
	if n := len(page.Letters); n > 0 && info.NumPending > uint64(n) {
		page.Next = page.Letters[n-1].ID
	}
	return page, batch.Error()
}

// Letter returns one letter with its data. It fails with ErrNoLetter or
// ErrUnavailable.
func (l *Letters) Letter(ctx context.Context, id uint64) (Letter, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, apiTimeout, errNoAnswer)
	defer cancel()
	m, err := l.message(ctx, id)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
		return Letter{}, fmt.Errorf("dead letter %d: %w", id, ErrNoLetter)
	case err != nil:
		return Letter{}, fmt.Errorf("dead letter %d: %w: %w", id, ErrUnavailable, err)
	}
	letter := decodeLetter(m.Sequence, m.Time, m.Header)
	letter.Data, letter.Bytes = m.Data, len(m.Data)
	return letter, nil
}

// message never asks for sequence 0: the server takes it for another request.
func (l *Letters) message(ctx context.Context, id uint64) (*jetstream.RawStreamMsg, error) {
	if id == 0 {
		return nil, jetstream.ErrMsgNotFound
	}
	dead, err := l.js.Stream(ctx, DeadStream)
	if err != nil {
		return nil, err
	}
	return dead.GetMsg(ctx, id)
}

// decodeLetter reads the headers that encode writes. A letter that something else
// published is shown as far as it has them, with the time of its publication.
func decodeLetter(id uint64, published time.Time, header nats.Header) Letter {
	text := func(name string) string { return strings.TrimSpace(headerText(header.Get(name))) }
	letter := Letter{ID: id, DeadLetter: DeadLetter{
		Reason:  text(HeaderReason),
		Stream:  text(HeaderStream),
		Subject: text(HeaderSubject),
		Detail:  text(HeaderDetail),
	}}
	var err error
	if letter.Seq, err = strconv.ParseUint(header.Get(HeaderSeq), 10, 64); err != nil {
		letter.Seq = 0
	}
	if letter.Time, err = time.Parse(time.RFC3339Nano, header.Get(HeaderTime)); err != nil || letter.Time.IsZero() {
		letter.Time = published.UTC()
	}
	return letter
}

// Replay publishes a letter's data to the stream that it came from, as a new
// message, and then removes the letter. An event asks for a notification again
// where the letter's subject shows that it did.
//
// The errors are ErrNoLetter, ErrNeverQueued, ErrNotCommitted, ErrNotRemoved and
// those of Publish; after each of them the letter is still there. A second replay
// within the stream's duplicate window stores nothing more.
func (l *Letters) Replay(ctx context.Context, id uint64) (Ack, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, replayTimeout, errNoAnswer)
	defer cancel()
	ack, err := l.replay(ctx, id)
	if err != nil {
		return Ack{}, fmt.Errorf("replay: %w", err)
	}
	return ack, nil
}

func (l *Letters) replay(ctx context.Context, id uint64) (Ack, error) {
	letter, err := l.Letter(ctx, id)
	if err != nil {
		return Ack{}, err
	}
	m, err := letter.original()
	if err != nil {
		return Ack{}, err
	}
	committed, err := l.committed(ctx, letter.Stream)
	if err != nil {
		return Ack{}, fmt.Errorf("dead letter %d: %w: %w", id, ErrUnavailable, err)
	}
	if committed < letter.Seq {
		return Ack{}, fmt.Errorf("dead letter %d: %w", id, ErrNotCommitted)
	}
	stored, err := request(ctx, l.js.Conn(), m)
	if err != nil {
		return Ack{}, fmt.Errorf("dead letter %d: %w", id, err)
	}
	if err := l.Remove(ctx, id); err != nil {
		return Ack{}, fmt.Errorf("dead letter %d, now message %d of %s: %w: %w: %w",
			id, stored.Seq, stored.Stream, ErrNotRemoved, ErrUnavailable, err)
	}
	return Ack{Stream: stored.Stream, Seq: stored.Seq, Duplicate: stored.Duplicate}, nil
}

// original returns the letter as a message of its stream. The ID names the first
// place of the message, so that two letters of one message are stored once.
func (letter *Letter) original() (*nats.Msg, error) {
	kind, shard, ok := parseName(letter.Stream)
	if !ok || letter.Seq == 0 {
		return nil, fmt.Errorf("dead letter %d of %s: %w", letter.ID, letter.Stream, ErrNeverQueued)
	}
	if len(letter.Data) == 0 {
		return nil, fmt.Errorf("dead letter %d is empty: %w", letter.ID, ErrNeverQueued)
	}
	m := newMessage(subject(kind, shard, false), messageID("", letter.Stream+"."+strconv.FormatUint(letter.Seq, 10)), letter.Data)
	if slices.Contains(streamSubjects(kind, shard), letter.Subject) {
		m.Subject = letter.Subject
	}
	m.Header[jetstream.ExpectedStreamHeader] = []string{letter.Stream}
	return m, nil
}

// parseName is the inverse of Name.
func parseName(stream string) (kind record.Kind, shard int, ok bool) {
	_, number, found := strings.Cut(stream, "_")
	shard, err := strconv.Atoi(number)
	if !found || err != nil || shard < 0 || shard >= MaxShards {
		return 0, 0, false
	}
	for _, kind := range []record.Kind{record.KindLog, record.KindEvent} {
		if Name(kind, shard) == stream {
			return kind, shard, true
		}
	}
	return 0, 0, false
}

// Remove deletes a letter. One that another replay has deleted meanwhile is no
// error.
func (l *Letters) Remove(ctx context.Context, id uint64) error {
	dead, err := l.js.Stream(ctx, DeadStream)
	if err != nil {
		return err
	}
	err = dead.DeleteMsg(ctx, id)
	if err == nil {
		return nil
	}
	if _, gone := dead.GetMsg(ctx, id); errors.Is(gone, jetstream.ErrMsgNotFound) {
		return nil
	}
	return err
}
