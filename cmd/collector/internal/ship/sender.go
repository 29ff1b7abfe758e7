package ship

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/logboom/logboom/cmd/collector/internal/option"
	"github.com/logboom/logboom/cmd/collector/internal/spool"
)

// idleShare of the interval: a batch is sent when nothing was added for so
// long.
const idleShare = 10

// Sender delivers one stream.
type Sender struct {
	stream *spool.Stream
	depot  *spool.Depot
	route  *Route
	form   *form
	batch  option.Batch
	lines  int // that the next new batch may have; fewer for a while after a 413
	logger *slog.Logger
	seen   int64 // end of the stream when no whole frame was there
}

// NewSender delivers a stream by a route.
func NewSender(depot *spool.Depot, stream *spool.Stream, route *Route, origin Origin, batch option.Batch, logger *slog.Logger) *Sender {
	return &Sender{stream: stream, depot: depot, route: route, form: newForm(origin), batch: batch, lines: batch.Lines, logger: logger, seen: -1}
}

// Run delivers until the stream is over and empty, which is told by true, or
// until ctx ends. After stopping is closed it goes on only while there is
// something to send.
func (s *Sender) Run(ctx context.Context, stopping <-chan struct{}) (done bool) {
	for {
		switch s.wait(ctx, stopping) {
		case nothing:
			return false
		case finished:
			return true
		}
		if err := s.deliver(ctx); err != nil {
			return false // ctx has ended
		}
	}
}

// what look has found.
type found int

const (
	nothing  found = iota // to send now
	little                // that may become more
	plenty                // or it is not worth waiting for more
	finished              // the stream is delivered to its end
)

// wait returns plenty when there is a batch worth sending: a full one, or one
// whose oldest line has waited for the interval, or a smaller one when nothing
// was added to it for a tenth of that. It returns nothing when it is to stop.
func (s *Sender) wait(ctx context.Context, stopping <-chan struct{}) found {
	for {
		switch f := s.look(); f {
		case little:
			s.gather(ctx, stopping)
			return plenty
		case plenty, finished:
			return f
		}
		select {
		case <-s.stream.News():
		case <-stopping:
			if s.look() == nothing {
				return nothing
			}
		case <-ctx.Done():
			return nothing
		}
	}
}

// full is how many bytes in the spool are about a full batch.
func (s *Sender) full() int64 { return int64(min(s.batch.Bytes, s.lines*eventOverhead)) }

// look tells what there is.
func (s *Sender) look() found {
	waiting, over := s.stream.Waiting()
	c := s.stream.Cursor()
	switch {
	case c.Cut != nil, c.Lost.Lines > 0:
		return plenty
	case over && waiting == 0 && len(c.Carry) == 0:
		return finished
	case over:
		return plenty
	case waiting == 0, s.stream.End() == s.seen:
		return nothing
	case waiting >= s.full():
		return plenty
	}
	return little
}

// gather lets a batch grow.
func (s *Sender) gather(ctx context.Context, stopping <-chan struct{}) {
	step := time.NewTicker(max(time.Millisecond, s.batch.Interval/idleShare))
	defer step.Stop()
	last := s.stream.End()
	for range idleShare {
		if waiting, over := s.stream.Waiting(); over || waiting >= s.full() {
			return
		}
		select {
		case <-step.C:
		case <-stopping:
			return
		case <-ctx.Done():
			return
		}
		now := s.stream.End()
		if now == last {
			return
		}
		last = now
	}
}

// deliver makes one attempt at the next batch.
func (s *Sender) deliver(ctx context.Context) error {
	b, err := s.route.take(ctx)
	if err != nil {
		return err
	}
	defer s.route.give(b)
	_, over := s.stream.Waiting()
	end := s.stream.End()
	c := s.stream.Cursor()
	carry, err := b.build(s.stream, c, s.form, over, limits{s.lines, s.batch.Bytes})
	switch {
	case errors.Is(err, spool.ErrBroken):
		s.logger.Error("log stream out of step: what it holds is thrown away", "stream", s.stream.ID, "err", err)
		s.route.metrics.Dropped.WithLabelValues(BadFrame).Inc()
		s.stream.Break(c.From)
		return nil
	case errors.Is(err, spool.ErrGone):
		return ctx.Err() // dropped meanwhile: look again
	case err != nil:
		s.logger.Error("spool not readable", "stream", s.stream.ID, "err", err)
		return s.rest(ctx)
	case b.cut.Lines == 0 && b.cut.Told.Lines == 0 && c.Cut == nil:
		s.pass(b, c, carry, over, end)
		return nil
	}
	if c.Cut == nil && s.stream.Begin(c.From, b.cut) != nil {
		return nil // dropped meanwhile: look again
	}
	s.settle(b, s.route.post(ctx, b), carry)
	return ctx.Err()
}

// rest keeps a disk that cannot be read from being asked without end.
func (s *Sender) rest(ctx context.Context) error {
	timer := time.NewTimer(s.route.patience.Least)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pass goes over frames that end no line.
func (s *Sender) pass(b *bench, c spool.Cursor, carry []byte, over bool, end int64) {
	s.countBad(b)
	if b.cut.To == c.From {
		s.seen = end
		if over {
			s.stream.Advance(c.From, end, nil) // half a frame that nothing will complete
		}
		return
	}
	s.stream.Advance(c.From, b.cut.To, carry)
}

// settle does what an attempt's verdict asks for.
func (s *Sender) settle(b *bench, v verdict, carry []byte) {
	switch {
	case v == again:
		return
	case v == tooLarge && b.cut.Lines > 1:
		s.lines = max(1, int(b.cut.Lines)/2)
		s.logger.Warn("batch too large for Logboom: trying half as many lines", "stream", s.stream.ID, "lines", s.lines)
		s.stream.Recut(b.cut.ID)
		return
	case v == delivered:
		s.route.metrics.lines.Add(float64(b.cut.Lines))
		s.route.metrics.batches.Inc()
		s.route.metrics.bytes.Add(float64(len(b.body)))
		s.lines = min(s.batch.Lines, 2*s.lines)
	default:
		s.bury(b)
	}
	s.countBad(b)
	s.stream.Commit(b.cut.ID, carry)
}

// bury gives up a batch that was refused for good.
func (s *Sender) bury(b *bench) {
	s.route.metrics.Dropped.WithLabelValues(Refused).Add(float64(b.cut.Lines))
	s.logger.Error("batch refused for good: put among the dead letters", "stream", s.stream.ID, "batch", b.cut.ID, "lines", b.cut.Lines)
	if err := s.depot.Bury(b.cut.ID, b.body); err != nil {
		s.logger.Error("dead letter not written", "batch", b.cut.ID, "err", err)
	}
}

// countBad counts frames that hold no entry.
func (s *Sender) countBad(b *bench) {
	if b.bad > 0 {
		s.route.metrics.Dropped.WithLabelValues(BadFrame).Add(float64(b.bad))
		s.logger.Warn("frames without a log entry passed over", "stream", s.stream.ID, "frames", b.bad)
	}
}
