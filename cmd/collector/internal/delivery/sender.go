// Package delivery delivers what a spool.Stream holds: it builds batches, sends
// them, and commits those that Logboom has stored.
//
// A Sender delivers one stream. Senders with the same option.Destination share a
// Route, which has the connections, a few builders for bodies, and the pause
// that a failure requires. This is the way of one batch:
//
//	wait ─▶ build ─▶ BeginBatch ─▶ send ─┬─ 200 ──────────────▶ commit
//	          ▲                          ├─ 413 ──────────────▶ cancel, build with half as many lines
//	          │                          ├─ 400, 413 for one ─▶ dead letter, count, commit
//	          └── same body, same key ◀──┴─ everything else ──▶ pause: Retry-After, or backoff
//
// What a newcomer would get wrong: once a batch has been sent, it does not
// change, whatever comes after it. Its key lets the server store a repeat only
// once. The server remembers keys for two minutes: a batch that did arrive,
// although no answer said so, and is repeated later than that, is stored twice.
// Waiting costs no memory, because each attempt builds the body again.
package delivery

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/logboom/logboom/cmd/collector/internal/option"
	"github.com/logboom/logboom/cmd/collector/internal/spool"
)

const (
	// idleShare is the fraction of the batch interval after which a batch is
	// sent if nothing was added to it.
	idleShare = 10
	// eventOverhead is roughly the size of an event without its line. It serves
	// only to estimate how many bytes in the spool fill a batch.
	eventOverhead = 64
)

// Sender delivers one stream.
type Sender struct {
	stream   *spool.Stream
	spool    *spool.Spool
	route    *Route
	encoder  *eventEncoder
	batch    option.Batch
	maxLines int // of the next new batch; less than batch.Lines for a while after a 413
	logger   *slog.Logger
	noFrame  int64 // the end of the stream when it held no complete frame; -1: never
}

// NewSender returns a sender that delivers a stream over a route.
func NewSender(sp *spool.Spool, stream *spool.Stream, route *Route, origin Origin, batch option.Batch, logger *slog.Logger) *Sender {
	return &Sender{stream: stream, spool: sp, route: route, encoder: newEventEncoder(origin), batch: batch, maxLines: batch.Lines, logger: logger, noFrame: -1}
}

// Run delivers until the stream has ended and is empty, and then returns true.
// It returns false when ctx ends, or when stopping is closed and there is
// nothing more to send.
func (s *Sender) Run(ctx context.Context, stopping <-chan struct{}) (done bool) {
	for {
		switch s.wait(ctx, stopping) {
		case empty:
			return false
		case finished:
			return true
		}
		if err := s.deliver(ctx); err != nil {
			return false // ctx has ended
		}
	}
}

// backlog says what a stream holds for the next batch.
type backlog int

const (
	empty    backlog = iota // nothing to send now
	growing                 // less than a full batch
	ready                   // a full batch, or one that need not wait for more
	finished                // the stream has ended and is delivered
)

// wait waits for a batch that is worth sending: a full one, or one whose oldest
// line has waited for the batch interval, or one to which nothing was added for
// a tenth of the interval. It returns ready, finished, or empty if Run must end.
func (s *Sender) wait(ctx context.Context, stopping <-chan struct{}) backlog {
	for {
		switch f := s.backlog(); f {
		case growing:
			s.waitForMore(ctx, stopping)
			return ready
		case ready, finished:
			return f
		}
		select {
		case <-s.stream.Changed():
		case <-stopping:
			if s.backlog() == empty {
				return empty
			}
		case <-ctx.Done():
			return empty
		}
	}
}

// fullBytes estimates how many bytes in the spool fill a batch.
func (s *Sender) fullBytes() int64 { return int64(min(s.batch.Bytes, s.maxLines*eventOverhead)) }

func (s *Sender) backlog() backlog {
	pending, ended := s.stream.Pending()
	c := s.stream.Cursor()
	switch {
	case c.Batch != nil, c.Lost.Lines > 0:
		return ready
	case ended && pending == 0 && len(c.OpenFrames) == 0:
		return finished
	case ended:
		return ready
	case pending == 0, s.stream.End() == s.noFrame:
		return empty
	case pending >= s.fullBytes():
		return ready
	}
	return growing
}

// waitForMore waits while the pending batch grows.
func (s *Sender) waitForMore(ctx context.Context, stopping <-chan struct{}) {
	ticker := time.NewTicker(max(time.Millisecond, s.batch.Interval/idleShare))
	defer ticker.Stop()
	last := s.stream.End()
	for range idleShare {
		if pending, ended := s.stream.Pending(); ended || pending >= s.fullBytes() {
			return
		}
		select {
		case <-ticker.C:
		case <-stopping:
			return
		case <-ctx.Done():
			return
		}
		end := s.stream.End()
		if end == last {
			return
		}
		last = end
	}
}

// deliver makes one attempt to send the next batch. It returns an error only
// after ctx has ended.
func (s *Sender) deliver(ctx context.Context) error {
	b, err := s.route.acquire(ctx)
	if err != nil {
		return err
	}
	defer s.route.release(b)
	_, ended := s.stream.Pending()
	end := s.stream.End()
	c := s.stream.Cursor()
	openFrames, err := b.build(s.stream, c, s.encoder, ended, limits{s.maxLines, s.batch.Bytes})
	switch {
	case errors.Is(err, spool.ErrBadFrame):
		s.logger.Error("log stream out of sync; its content was discarded", "stream", s.stream.ID, "err", err)
		s.route.metrics.CountDropped(BadFrame, 1)
		s.stream.Resync(c.From)
		return nil
	case errors.Is(err, spool.ErrGone):
		return ctx.Err() // the lines were dropped meanwhile: try again
	case err != nil:
		s.logger.Error("spool not readable", "stream", s.stream.ID, "err", err)
		return sleep(ctx, s.route.timing.MinPause)
	case b.batch.Lines == 0 && b.batch.Reported.Lines == 0 && c.Batch == nil:
		s.skip(b, c, openFrames, ended, end)
		return nil
	}
	if c.Batch == nil && s.stream.BeginBatch(c.From, b.batch) != nil {
		return nil // the lines were dropped meanwhile: try again
	}
	s.finish(b, s.route.send(ctx, b), openFrames)
	return ctx.Err()
}

// skip moves the cursor over frames in which no line ends.
func (s *Sender) skip(b *builder, c spool.Cursor, openFrames []byte, ended bool, end int64) {
	s.countBadFrames(b)
	if b.batch.To > c.From {
		s.stream.Skip(c.From, b.batch.To, openFrames)
		return
	}
	s.noFrame = end
	if ended {
		s.stream.Skip(c.From, end, nil) // an incomplete frame that nothing will complete
	}
}

// finish does what the verdict on an attempt requires.
func (s *Sender) finish(b *builder, v verdict, openFrames []byte) {
	switch {
	case v == retry:
		return
	case v == tooLarge && b.batch.Lines > 1:
		s.maxLines = max(1, int(b.batch.Lines)/2)
		s.logger.Warn("batch too large for Logboom; trying with half as many lines", "stream", s.stream.ID, "lines", s.maxLines)
		s.stream.CancelBatch(b.batch.ID)
		return
	case v == delivered:
		s.route.metrics.lines.Add(float64(b.batch.Lines))
		s.route.metrics.batches.Inc()
		s.route.metrics.bytes.Add(float64(len(b.body)))
		s.maxLines = min(s.batch.Lines, 2*s.maxLines)
	default:
		s.route.metrics.CountDropped(Refused, b.batch.Lines)
		s.logger.Error("batch refused for good; stored as a dead letter", "stream", s.stream.ID, "batch", b.batch.ID, "lines", b.batch.Lines)
		if err := s.spool.StoreDeadLetter(b.batch.ID, b.body); err != nil {
			s.logger.Error("dead letter not stored", "batch", b.batch.ID, "err", err)
		}
	}
	s.countBadFrames(b)
	s.stream.CommitBatch(b.batch.ID, openFrames)
}

func (s *Sender) countBadFrames(b *builder) {
	if b.badFrames > 0 {
		s.route.metrics.CountDropped(BadFrame, b.badFrames)
		s.logger.Warn("frames without a log entry skipped", "stream", s.stream.ID, "frames", b.badFrames)
	}
}
