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

const (
	// MaxLetterPage is how many letters one page holds at most.
	MaxLetterPage = 1000
	// listTimeout bounds the wait for a page. Only headers travel: a thousand
	// letters are some 3 MB at the very most.
	listTimeout = 5 * time.Second
)

// ErrNoLetter: there is no dead letter of that ID, or no longer.
var ErrNoLetter = errors.New("no such dead letter")

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

// Letter is a dead letter in its place. One that was listed has no Data.
type Letter struct {
	ID    uint64 // its sequence on DEAD
	Bytes int    // of the data
	DeadLetter
}

// LetterPage is one page of letters, the oldest first.
type LetterPage struct {
	Letters []Letter
	Next    uint64 // the after of the next page; 0: this is the last
}

// List is the page of letters that come after an ID, without their data; 0 is
// before all. The limit is 1 to MaxLetterPage. It fails with ErrUnavailable.
func (l *Letters) List(ctx context.Context, after uint64, limit int) (LetterPage, error) {
	if limit < 1 || limit > MaxLetterPage {
		return LetterPage{}, fmt.Errorf("list dead letters: a page of %d: give 1 to %d", limit, MaxLetterPage)
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

// page reads through a consumer, because only a consumer can leave the data
// out. It waits for exactly what the server says is there.
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
	// Where this fails the server removes it by itself, for nobody reads on.
	defer func() { _ = l.js.DeleteConsumer(ctx, DeadStream, info.Name) }()
	if info.NumPending == 0 {
		return page, nil
	}
	batch, err := consumer.Fetch(int(min(info.NumPending, uint64(limit))), jetstream.FetchContext(ctx))
	if err != nil {
		return page, err
	}
	for m := range batch.Messages() {
		letter, err := listed(m)
		if err != nil {
			return LetterPage{}, err
		}
		page.Letters = append(page.Letters, letter)
	}
	if n := len(page.Letters); n > 0 && info.NumPending > uint64(n) {
		page.Next = page.Letters[n-1].ID
	}
	return page, batch.Error()
}

// listed reads a letter that came without its data.
func listed(m jetstream.Msg) (Letter, error) {
	meta, err := m.Metadata()
	if err != nil {
		return Letter{}, err
	}
	letter := letterOf(meta.Sequence.Stream, meta.Timestamp, m.Headers())
	letter.Bytes, err = strconv.Atoi(m.Headers().Get(nats.MsgSize))
	if err != nil {
		return Letter{}, fmt.Errorf("letter %d has no size: %w", letter.ID, err)
	}
	return letter, nil
}

// Letter is one letter with its data, or ErrNoLetter or ErrUnavailable.
func (l *Letters) Letter(ctx context.Context, id uint64) (Letter, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, apiTimeout, errNoAnswer)
	defer cancel()
	m, err := l.raw(ctx, id)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
		return Letter{}, fmt.Errorf("dead letter %d: %w", id, ErrNoLetter)
	case err != nil:
		return Letter{}, fmt.Errorf("dead letter %d: %w: %w", id, ErrUnavailable, err)
	}
	letter := letterOf(m.Sequence, m.Time, m.Header)
	letter.Data, letter.Bytes = m.Data, len(m.Data)
	return letter, nil
}

// raw asks for no sequence 0, which the server takes for another question.
func (l *Letters) raw(ctx context.Context, id uint64) (*jetstream.RawStreamMsg, error) {
	if id == 0 {
		return nil, jetstream.ErrMsgNotFound
	}
	dead, err := l.js.Stream(ctx, DeadStream)
	if err != nil {
		return nil, err
	}
	return dead.GetMsg(ctx, id)
}

// letterOf reads the headers that Bury writes. A letter that something else put
// there is shown as far as it goes: never on a stream, and of the time at which
// it was buried.
func letterOf(id uint64, buried time.Time, header nats.Header) Letter {
	letter := Letter{ID: id, DeadLetter: DeadLetter{
		Reason:  letterText(header, HeaderReason),
		Stream:  letterText(header, HeaderStream),
		Subject: letterText(header, HeaderSubject),
		Detail:  letterText(header, HeaderDetail),
	}}
	var err error
	if letter.Seq, err = strconv.ParseUint(header.Get(HeaderSeq), 10, 64); err != nil {
		letter.Seq = 0
	}
	if letter.Time, err = time.Parse(time.RFC3339Nano, header.Get(HeaderTime)); err != nil || letter.Time.IsZero() {
		letter.Time = buried.UTC()
	}
	return letter
}

func letterText(header nats.Header, name string) string {
	return strings.TrimSpace(headerText(header.Get(name)))
}
