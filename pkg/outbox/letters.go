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

// Letters holds all dead letters: those of records, which stream.Letters replays,
// and those of alerts, which are published to the outbox again. The replay of an
// alert never publishes to a stream of records, so it doubles no row.
type Letters struct {
	*stream.Letters
	js jetstream.JetStream
}

// NewLetters returns the dead letters of a queue. committed is the argument of
// stream.NewLetters.
func NewLetters(js jetstream.JetStream, committed func(ctx context.Context, stream string) (uint64, error)) *Letters {
	return &Letters{Letters: stream.NewLetters(js, committed), js: js}
}

// DeadLetter returns the dead letter of an alert or a digest. seq is the sequence
// of its first alert in the outbox and identifies the letter.
func DeadLetter(subject string, seq uint64, reason, detail string, since time.Time, data []byte) stream.DeadLetter {
	return stream.DeadLetter{Reason: reason, Stream: Stream, Subject: subject, Seq: seq, Time: since, Data: data, Detail: detail}
}

// Replay replays a record's letter as stream.Letters does. It publishes an alert's
// letter to the outbox, behind the alerts that wait, and removes the letter. The
// errors are those of stream.Letters.
func (l *Letters) Replay(ctx context.Context, id uint64) (stream.Ack, error) {
	letter, err := l.Letter(ctx, id)
	if err != nil {
		return stream.Ack{}, fmt.Errorf("replay: %w", err)
	}
	if letter.Stream != Stream {
		return l.Letters.Replay(ctx, id)
	}
	if err := l.replayAlert(ctx, letter); err != nil {
		return stream.Ack{}, fmt.Errorf("replay dead letter %d: %w", id, err)
	}
	return stream.Ack{Stream: Stream}, nil
}

func (l *Letters) replayAlert(ctx context.Context, letter stream.Letter) error {
	e, err := Decode(letter.Data)
	if err != nil || !strings.HasPrefix(letter.Subject, "notify.") {
		return stream.ErrNeverQueued
	}
	e.Replay = letter.ID
	switch err := publish(ctx, l.js, letter.Subject, e); {
	case errors.Is(err, ErrFull):
		return fmt.Errorf("%w: %w", stream.ErrFull, err)
	case err != nil:
		return fmt.Errorf("%w: %w", stream.ErrUnavailable, err)
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	if err := l.Remove(ctx, letter.ID); err != nil {
		return fmt.Errorf("%w: %w: %w", stream.ErrNotRemoved, stream.ErrUnavailable, err)
	}
	return nil
}
