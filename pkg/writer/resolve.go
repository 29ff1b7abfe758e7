package writer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/record"
)

const (
	// insertLimit bounds an insert, from the write of its intent to its end. A
	// writer that was paused in between must not send what it had decided to
	// send: it counts again.
	insertLimit = 30 * time.Second
	// enoughRefusals is how many times in a row ClickHouse must refuse rows
	// permanently before they are held to be bad: once, a connection that breaks
	// inside the body can look the same.
	enoughRefusals = 2

	retryWaitFirst = 100 * time.Millisecond
	retryWaitMax   = 10 * time.Second // at most 15 s with the jitter of a half
)

var errStale = errors.New("the intent was written too long ago to insert its rows, counting them again")

// resolution stores the rows of the current intent and knows what the attempts
// so far have shown. The rows of the batch are the intent's; doc.go has the
// drawing.
type resolution struct {
	*worker
	answered map[string]bool // partitions that ClickHouse acknowledged under the current token
	refused  clickhouse.Class
	refusals int  // permanent verdicts in a row
	failed   bool // the last request failed: pause before the next one
	waits    *backoff.ExponentialBackOff
}

func newResolution(w *worker) *resolution {
	return &resolution{worker: w, answered: map[string]bool{}, waits: newWaits()}
}

// newWaits returns the waits between the attempts of one request.
func newWaits() *backoff.ExponentialBackOff {
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval = retryWaitFirst, retryWaitMax
	return waits
}

// storeRows returns when ClickHouse has the rows of the current intent, each
// once, or when their messages are dead letters. fresh means that nobody has
// inserted any of them before. The intent may be smaller afterwards.
func (w *worker) storeRows(ctx context.Context, fresh bool) error {
	r := newResolution(w)
	if w.position.Intent.Dead == "" && fresh {
		// The one case without a count: the first attempt is acknowledged.
		if err := r.insert(ctx, r.wanted()); err == nil {
			return nil
		}
	}
	for {
		done, err := r.resolve(ctx)
		if done || err != nil {
			return err
		}
	}
}

// resolve counts what ClickHouse has of the intent and takes the next step.
func (r *resolution) resolve(ctx context.Context) (done bool, err error) {
	in := *r.position.Intent
	if in.Dead != "" {
		return true, r.deadLetterIntent(ctx)
	}
	have, err := r.count(ctx)
	if err != nil {
		return false, err
	}
	found := compare(r.expected(), have)
	if len(found.missing) == 0 && found.wrong == "" {
		return true, nil
	}
	if found.burnt {
		in.Attempt++
		clear(r.answered)
		r.failed = true // if the next token is burnt too, do not hurry
		r.metrics.burnt.WithLabelValues(r.stream).Inc()
		r.deps.Logger.Warn("token burnt: acknowledged rows are not there", "stream", r.stream, "seq", in.To, "attempt", in.Attempt)
	}
	// Writing the intent again proves that nobody has taken over since.
	if err := r.intend(ctx, in); err != nil {
		return false, err
	}
	switch {
	case found.wrong != "":
		return false, wrongCount(r.stream, r.kind.String(), r.rows.shard, r.position.Intent, found)
	case r.refusals >= enoughRefusals:
		return false, r.cutIntent(ctx, found.missing)
	}
	_ = r.insert(ctx, found.missing) // recorded there; the next count shows what became of it
	return false, nil
}

// insert inserts the rows of some partitions, each as a block of its own, so
// that a block is stored as a whole or not at all.
func (r *resolution) insert(ctx context.Context, partitions []string) error {
	ctx, cancel := context.WithDeadline(ctx, r.intendedAt.Add(insertLimit))
	defer cancel()
	token := tokenOf(r.stream, r.position.Intent)
	for i, p := range r.rows.pick(partitions) {
		err := ctx.Err()
		if i > 0 && err == nil {
			err = r.failpoints.hit(pointInsideInsert)
		}
		switch {
		case time.Since(r.intendedAt) > insertLimit:
			err = errStale
		case err == nil && r.kind == record.KindEvent:
			err = r.deps.Sink.InsertEvents(ctx, token, &p.events)
		case err == nil:
			err = r.deps.Sink.InsertLogs(ctx, token, &p.logs)
		}
		if err != nil {
			r.recordFailure(err)
			return err
		}
		r.answered[p.partition] = true
	}
	r.refusals = 0
	return r.failpoints.hit(pointAfterInsert)
}

// recordFailure remembers and reports why an insert failed.
func (r *resolution) recordFailure(err error) {
	r.failed = true
	if r.stopRequested() {
		return // it was cut off
	}
	class := clickhouse.Classify(err)
	if class.Verdict == clickhouse.Permanent {
		r.refused = class
		r.refusals++
	} else {
		r.refusals = 0
	}
	r.metrics.failures.WithLabelValues(r.stream, class.Reason).Inc()
	r.deps.Logger.Warn("insert failed", "stream", r.stream, "seq", r.position.Intent.To, "rows", r.rows.len(),
		"attempt", r.position.Intent.Attempt, "verdict", class.Verdict, "reason", class.Reason, "err", err)
}

// count asks ClickHouse what it has of the intent until there is an answer.
func (r *resolution) count(ctx context.Context) (map[string]clickhouse.Count, error) {
	in := r.position.Intent
	asked := clickhouse.Range{Kind: r.kind, Shard: r.rows.shard, From: in.From, To: in.To, ReceivedMin: in.ReceivedMin, ReceivedMax: in.ReceivedMax}
	for {
		if r.failed {
			if err := r.pause(ctx, r.waits.NextBackOff()); err != nil {
				return nil, err
			}
		}
		have, err := r.deps.Sink.CountRange(ctx, asked)
		r.failed = err != nil
		if err == nil {
			return have, nil
		}
		r.metrics.failures.WithLabelValues(r.stream, "count").Inc()
		r.deps.Logger.Warn("rows not counted", "stream", r.stream, "seq", in.To, "err", err)
	}
}

// wanted returns the partitions that get rows, in the order of the messages.
func (r *resolution) wanted() []string {
	var partitions []string
	for _, p := range r.rows.parts {
		if p.len() > 0 {
			partitions = append(partitions, p.partition)
		}
	}
	return partitions
}

// expectation is what a count must find in one partition of an intent.
type expectation struct {
	want     uint64 // rows that were sent
	lasting  uint64 // of these, rows whose retention has not passed: they must be there
	answered bool   // ClickHouse acknowledged them under the current token
}

func (r *resolution) expected() map[string]expectation {
	expected, now := map[string]expectation{}, time.Now()
	for _, p := range r.rows.parts {
		if p.len() > 0 {
			expected[p.partition] = expectation{want: uint64(p.len()), lasting: p.lasting(now), answered: r.answered[p.partition]}
		}
	}
	return expected
}

// finding is what a count means.
type finding struct {
	missing []string // partitions without any of their rows, sorted; none: everything is there
	burnt   bool     // all that is missing was acknowledged: the token is logged, the rows are not there
	wrong   string   // what no insert of ours leaves, with the code of the reason
	code    string
}

// compare is the whole decision of resolving. Rows that are stored twice count
// once: nothing is missing, and the audit reports the copies.
func compare(want map[string]expectation, have map[string]clickhouse.Count) finding {
	f := finding{burnt: true}
	for _, partition := range slices.Sorted(maps.Keys(have)) {
		if n := have[partition].Distinct; n > want[partition].want {
			return finding{code: stopOverfull, wrong: fmt.Sprintf("partition %s holds %d rows where %d are wanted", partition, n, want[partition].want)}
		}
	}
	for _, partition := range slices.Sorted(maps.Keys(want)) {
		w, n := want[partition], have[partition].Distinct
		switch {
		case n >= w.lasting: // 0 if the retention of all has passed
		case n > 0:
			return finding{code: stopPartFilled, wrong: fmt.Sprintf("partition %s holds %d of %d rows: a part of an insert was stored", partition, n, w.want)}
		default:
			f.missing = append(f.missing, partition)
			f.burnt = f.burnt && w.answered
		}
	}
	f.burnt = f.burnt && len(f.missing) > 0
	return f
}

// cutIntent replaces an intent that ClickHouse refuses permanently by a smaller
// one, down to one message, which becomes a dead letter. Nothing of a message
// after the cut may be stored, or the next batch would store it again.
func (r *resolution) cutIntent(ctx context.Context, missing []string) error {
	in := *r.position.Intent
	cut := r.cutAt(missing)
	switch {
	case cut == 0:
		return wrongCount(r.stream, r.kind.String(), r.rows.shard, &in, finding{
			code: stopPartFilled, wrong: "ClickHouse refuses the rows of a partition permanently, and those of a later one are stored",
		})
	case in.From == in.To:
		in.Dead = r.refused.Reason
	default:
		r.deps.Logger.Warn("intent cut: ClickHouse refuses its rows", "stream", r.stream, "from", in.From, "seq", in.To, "cut", cut, "reason", r.refused.Reason)
		if err := r.load(ctx, in.From, cut); err != nil {
			return err
		}
		in = r.intent()
	}
	if err := r.intend(ctx, in); err != nil {
		return err
	}
	*r = *newResolution(r.worker)
	return nil
}

// cutAt returns the last message of the smaller intent: the end of what is
// stored if that is the intent's beginning, otherwise the middle. It returns 0
// if there is no such place.
func (r *resolution) cutAt(missing []string) uint64 {
	in := r.position.Intent
	if len(missing) == len(r.wanted()) {
		return in.From + (in.To-in.From)/2
	}
	end := in.To
	for _, p := range r.rows.pick(missing) {
		end = min(end, p.first-1)
	}
	for _, p := range r.rows.parts {
		if p.last > end && p.len() > 0 && !slices.Contains(missing, p.partition) {
			return 0
		}
	}
	return end
}

// deadLetterIntent publishes the intent's messages as dead letters.
func (r *resolution) deadLetterIntent(ctx context.Context) error {
	in := r.position.Intent
	deliveries, err := r.deps.Queue.ReadRange(ctx, r.stream, in.From, in.To)
	if err != nil {
		return fmt.Errorf("read %d to %d again: %w", in.From, in.To, err)
	}
	for _, delivery := range deliveries {
		if err := r.deadLetter(ctx, delivery, in.Dead, "ClickHouse refuses its rows"); err != nil {
			return err
		}
	}
	return nil
}

// tokenOf returns the deduplication token of an intent's blocks: a block that is
// sent again under the same token is not stored again. A burnt token has a
// successor.
func tokenOf(name string, in *ledger.Intent) string {
	token := fmt.Sprintf("%s-%d-%d-%s", name, in.From, in.To, in.Hash)
	if in.Attempt > 1 {
		token += fmt.Sprintf("-r%d", in.Attempt)
	}
	return token
}
