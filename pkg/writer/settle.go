package writer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

const (
	// staleAfter bounds an insert from the swap that allows it to its end. A
	// writer that was paused in between must not send what it had decided: it
	// looks again.
	staleAfter = 30 * time.Second
	// enoughRefusals is how often in a row ClickHouse must refuse rows for good
	// before they are taken for bad: a connection that breaks inside the body
	// can look like it once.
	enoughRefusals = 2

	retryWaitFirst = 100 * time.Millisecond
	retryWaitMost  = 10 * time.Second // with the jitter of a half at most 15 s
)

var errStale = errors.New("too long ago was it allowed: look again")

// settlement is the way of the intent in hand to its end. The rows in hand are
// the intent's; doc.go has the drawing.
type settlement struct {
	*worker
	answered map[string]bool // partitions for which ClickHouse said ok under the token in use
	refused  clickhouse.Class
	refusals int  // permanent verdicts in a row
	failed   bool // the last request did: pause before the next
	waits    *backoff.ExponentialBackOff
}

func newSettlement(w *worker) *settlement {
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval = retryWaitFirst, retryWaitMost
	return &settlement{worker: w, answered: map[string]bool{}, waits: waits}
}

// settle returns when ClickHouse has the rows of the intent in hand, each once,
// or when they are among the dead letters. fresh says that nobody has sent any
// of them before. The intent may be a smaller one in the end.
func (w *worker) settle(ctx context.Context, fresh bool) error {
	s := newSettlement(w)
	if w.position.Intent.Dead == "" && fresh {
		// The one case without a count: the first attempt, answered with ok.
		if err := s.send(ctx, s.wanted()); err == nil {
			return nil
		}
	}
	for {
		done, err := s.resolve(ctx)
		if done || err != nil {
			return err
		}
	}
}

// resolve reads back what ClickHouse has of the intent and does what follows.
func (s *settlement) resolve(ctx context.Context) (done bool, err error) {
	if s.position.Intent.Dead != "" {
		return true, s.buryIntent(ctx)
	}
	have, err := s.count(ctx)
	if err != nil {
		return false, err
	}
	found := judge(s.covers(), have)
	if len(found.missing) == 0 && found.wrong == "" {
		return true, nil
	}
	if err := s.hold(ctx, found.burnt); err != nil {
		return false, err
	}
	switch {
	case found.wrong != "":
		return false, wrongCount(s.stream, s.kind.String(), s.rows.shard, s.position.Intent, found)
	case s.refusals >= enoughRefusals:
		return false, s.recut(ctx, found.missing)
	}
	_ = s.send(ctx, found.missing) // noted there; the next count tells what became of it
	return false, nil
}

// hold swaps the intent by itself, which proves that nobody has taken over
// since, or by one with the next attempt, where the token is burnt.
func (s *settlement) hold(ctx context.Context, burnt bool) error {
	intent := *s.position.Intent
	if burnt {
		intent.Attempt++
		clear(s.answered)
		s.failed = true // should the next be burnt too, then not in a rush
		s.metrics.burnt.WithLabelValues(s.stream).Inc()
		s.deps.Logger.Warn("token burnt: rows answered with ok are not there", "stream", s.stream, "seq", intent.To, "attempt", intent.Attempt)
	}
	return s.intend(ctx, intent)
}

// send inserts the rows of some partitions, each as a block of its own, so that
// it is there wholly or not at all.
func (s *settlement) send(ctx context.Context, partitions []string) error {
	ctx, cancel := context.WithDeadline(ctx, s.allowed.Add(staleAfter))
	defer cancel()
	token := tokenOf(s.stream, s.position.Intent)
	for i, p := range s.rows.pick(partitions) {
		err := ctx.Err()
		if i > 0 && err == nil {
			err = s.failpoints.hit(pointInsideInsert)
		}
		switch {
		case time.Since(s.allowed) > staleAfter:
			err = errStale
		case err == nil:
			err = s.insert(ctx, token, p)
		}
		if err != nil {
			s.note(err)
			return err
		}
		s.answered[p.partition] = true
	}
	s.refusals = 0
	return s.failpoints.hit(pointAfterInsert)
}

func (s *settlement) insert(ctx context.Context, token string, p *part) error {
	if s.kind == record.KindEvent {
		return s.deps.Sink.InsertEvents(ctx, token, &p.events)
	}
	return s.deps.Sink.InsertLogs(ctx, token, &p.logs)
}

// note takes in what a failed request means.
func (s *settlement) note(err error) {
	s.failed = true
	if s.givenUp() {
		return // it was cut off
	}
	class := clickhouse.Classify(err)
	if class.Verdict == clickhouse.Permanent {
		s.refused = class
		s.refusals++
	} else {
		s.refusals = 0
	}
	s.metrics.failures.WithLabelValues(s.stream, class.Reason).Inc()
	s.deps.Logger.Warn("insert failed", "stream", s.stream, "seq", s.position.Intent.To, "rows", s.rows.len(),
		"attempt", s.position.Intent.Attempt, "verdict", class.Verdict, "reason", class.Reason, "err", err)
}

// asked is the intent's messages, as one asks ClickHouse for them.
func (s *settlement) asked() clickhouse.Range {
	in := s.position.Intent
	return clickhouse.Range{
		Kind: s.kind, Shard: s.rows.shard, From: in.From, To: in.To, ReceivedMin: in.ReceivedMin, ReceivedMax: in.ReceivedMax,
	}
}

// count asks what ClickHouse has of the intent until it answers.
func (s *settlement) count(ctx context.Context) (map[string]uint64, error) {
	in := s.position.Intent
	for {
		if s.failed {
			if err := s.pause(ctx, s.waits.NextBackOff()); err != nil {
				return nil, err
			}
		}
		have, err := s.deps.Sink.CountRange(ctx, s.asked())
		if err == nil {
			s.failed = false
			return have, nil
		}
		s.failed = true
		s.metrics.failures.WithLabelValues(s.stream, "count").Inc()
		s.deps.Logger.Warn("rows not counted", "stream", s.stream, "seq", in.To, "err", err)
	}
}

// wanted is the partitions that get rows, in the order of the messages.
func (s *settlement) wanted() []string {
	var partitions []string
	for _, p := range s.rows.parts {
		if p.len() > 0 {
			partitions = append(partitions, p.partition)
		}
	}
	return partitions
}

func (s *settlement) covers() map[string]cover {
	covers, now := map[string]cover{}, time.Now()
	for _, p := range s.rows.parts {
		if p.len() > 0 {
			covers[p.partition] = cover{want: uint64(p.len()), lasting: p.lasting(now), answered: s.answered[p.partition]}
		}
	}
	return covers
}

// recut replaces an intent that ClickHouse refuses for good by a smaller one,
// down to one message, which becomes a dead letter. Nothing of a message beyond
// the cut may be stored, or the next batch would store it again.
func (s *settlement) recut(ctx context.Context, missing []string) error {
	in := *s.position.Intent
	cut := s.cut(missing)
	switch {
	case cut == 0:
		return wrongCount(s.stream, s.kind.String(), s.rows.shard, &in, finding{
			code: stopPartFilled, wrong: "a partition is refused for good, and a later one is stored",
		})
	case in.From == in.To:
		in.Dead = s.refused.Reason
	default:
		s.deps.Logger.Warn("intent cut: ClickHouse refuses its rows", "stream", s.stream, "from", in.From, "seq", in.To, "cut", cut, "reason", s.refused.Reason)
		if err := s.load(ctx, in.From, cut); err != nil {
			return err
		}
		in = s.intent()
	}
	if err := s.intend(ctx, in); err != nil {
		return err
	}
	*s = *newSettlement(s.worker)
	return nil
}

// cut is the last message of the smaller intent: the end of what is stored,
// where that is a beginning; else the middle. 0: there is no such place.
func (s *settlement) cut(missing []string) uint64 {
	in := s.position.Intent
	if len(missing) == len(s.wanted()) {
		return in.From + (in.To-in.From)/2
	}
	end := in.To
	for _, p := range s.rows.pick(missing) {
		end = min(end, p.first-1)
	}
	for _, p := range s.rows.parts {
		if p.last > end && p.len() > 0 && !slices.Contains(missing, p.partition) {
			return 0
		}
	}
	return end
}

// buryIntent puts the intent's messages among the dead letters.
func (s *settlement) buryIntent(ctx context.Context) error {
	in := s.position.Intent
	deliveries, err := s.deps.Queue.Refetch(ctx, s.stream, in.From, in.To)
	if err != nil {
		return fmt.Errorf("read %d to %d again: %w", in.From, in.To, err)
	}
	for _, delivery := range deliveries {
		if err := s.bury(ctx, delivery, in.Dead, "ClickHouse refuses its rows"); err != nil {
			return err
		}
	}
	return nil
}

// tokenOf names the block of a partition: what is sent again under the same
// token is not stored again. A burnt token has a successor.
func tokenOf(name string, in *stream.Intent) string {
	token := fmt.Sprintf("%s-%d-%d-%s", name, in.From, in.To, in.Hash)
	if in.Attempt > 1 {
		token += fmt.Sprintf("-r%d", in.Attempt)
	}
	return token
}
