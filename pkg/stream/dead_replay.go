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

// replayTimeout bounds all steps of a replay together.
const replayTimeout = 10 * time.Second

// Why a letter stays where it is.
var (
	// ErrNeverQueued: the letter was on no stream of logs or events, so there is
	// none to put it back on.
	ErrNeverQueued = errors.New("the dead letter never was on a stream")
	// ErrNotCommitted: the stream's writer has not yet committed that the message is
	// among the letters. Until then it may read the message again and bury or
	// store it by itself.
	ErrNotCommitted = errors.New("the writer has not committed the dead letter's message yet")
	// ErrNotRemoved comes with ErrUnavailable: the message is on its stream again,
	// and only the letter could not be removed.
	ErrNotRemoved = errors.New("the dead letter is replayed and could not be removed: replay it again at once")
)

// Replay publishes a letter's data to the stream that it came from, as a new
// message, and then removes the letter. An event asks for a notification again
// where the letter knows that it did.
//
// The errors are ErrNoLetter, ErrNeverQueued, ErrNotCommitted, ErrNotRemoved and
// those of Publish. On each of them the letter stays. A second replay stores
// nothing more as long as it comes within the stream's duplicate window.
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
	m, err := letter.again()
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

// again is the letter as a message of its stream. The ID is made of the place
// where the message was first, so that two letters of it, or one that was
// buried anew, count as the same.
func (letter *Letter) again() (*nats.Msg, error) {
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

// Remove takes a letter from DEAD; one that another replay has removed
// meanwhile is as good as removed.
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
