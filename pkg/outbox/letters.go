package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/stream"
)

// Letters are all dead letters: those of records, which stream.Letters replays,
// and those of alerts, which wait to be delivered again once they are replayed.
// An alert's letter never touches a stream of records, so that no row doubles.
type Letters struct {
	*stream.Letters
	js jetstream.JetStream
}

// NewLetters returns the letters of the queue behind a connection. committed is
// as for stream.NewLetters.
func NewLetters(js jetstream.JetStream, committed func(ctx context.Context, stream string) (uint64, error)) *Letters {
	return &Letters{Letters: stream.NewLetters(js, committed), js: js}
}

// Letter is the dead letter that alerts become; seq is the first one's place in
// the outbox, and tells the letter from others.
func Letter(subject string, seq uint64, reason, detail string, since time.Time, data []byte) stream.DeadLetter {
	return stream.DeadLetter{Reason: reason, Stream: Stream, Subject: subject, Seq: seq, Time: since, Data: data, Detail: detail}
}

// Replay does with a record's letter what stream.Letters does. An alert's waits
// for its destination again, behind those that wait already, and the letter is
// removed. The errors are those of stream.Letters.
func (l *Letters) Replay(ctx context.Context, id uint64) (stream.Ack, error) {
	letter, err := l.Letter(ctx, id)
	if err != nil {
		return stream.Ack{}, fmt.Errorf("replay: %w", err)
	}
	if letter.Stream != Stream {
		return l.Letters.Replay(ctx, id)
	}
	if err := l.again(ctx, letter); err != nil {
		return stream.Ack{}, fmt.Errorf("replay dead letter %d: %w", id, err)
	}
	return stream.Ack{Stream: Stream}, nil
}

func (l *Letters) again(ctx context.Context, letter stream.Letter) error {
	e, err := Decode(letter.Data)
	if err != nil || !strings.HasPrefix(letter.Subject, "notify.") {
		return stream.ErrNeverQueued
	}
	e.Replay = letter.ID
	data, err := encode(e)
	if err != nil {
		return err
	}
	switch err := put(ctx, l.js, letter.Subject, e, data); {
	case errors.Is(err, ErrFull):
		return fmt.Errorf("%w: %w", stream.ErrFull, err)
	case err != nil:
		return fmt.Errorf("%w: %w", stream.ErrUnavailable, err)
	}
	return l.remove(ctx, letter.ID)
}

// remove takes the letter away; one that another replay has removed meanwhile
// is as good as removed.
func (l *Letters) remove(ctx context.Context, id uint64) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	dead, err := l.js.Stream(ctx, stream.DeadStream)
	if err == nil {
		err = dead.DeleteMsg(ctx, id)
	}
	if err == nil {
		return nil
	}
	if _, gone := l.Letter(ctx, id); errors.Is(gone, stream.ErrNoLetter) {
		return nil
	}
	return fmt.Errorf("%w: %w: %w", stream.ErrNotRemoved, stream.ErrUnavailable, err)
}
