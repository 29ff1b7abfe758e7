package writer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/record"
)

// maxSteps bounds a run after the end of its tape: nothing fails any more then, and
// a process that is not done after so many calls never will be.
const maxSteps = 2000

// play runs the plot with processes of a kind and returns what is wrong at the end.
func play(t *testing.T, p plot, run func(context.Context, *process) error) (verdict error) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		w := newWorld(p)
		defer func() {
			for _, p := range w.processes {
				w.kill(p)
				<-p.done
			}
		}()
		if verdict = w.perform(run); verdict == nil {
			verdict = w.check()
		}
	})
	return verdict
}

// perform follows the tape and then lets everything finish.
func (w *world) perform(run func(context.Context, *process) error) error {
	for len(w.tape) > 0 {
		w.step(run)
	}
	for step := 0; ; step++ {
		calls := w.waiting()
		switch {
		case w.stopped() != nil || len(w.late) == 0 && len(w.rest()) == 0 && w.position.Intent == nil:
			return nil
		case step > maxSteps:
			return fmt.Errorf("not done after %d calls: %+v", step, w.position)
		case len(calls) > 0:
			w.grant(calls[0], none)
		case len(w.rest()) == 0 && len(w.late) > 0:
			w.arrive(0)
		case len(w.alive()) == 0:
			w.start(run)
		default:
			time.Sleep(time.Second)
		}
	}
}

// rest returns the messages that are not committed.
func (w *world) rest() []struct{} {
	return make([]struct{}, uint64(w.messages)-w.position.Committed)
}

// step makes one random thing happen.
func (w *world) step(run func(context.Context, *process) error) {
	calls, verb := w.waiting(), w.draw()%24
	alive := w.alive()
	switch {
	case len(alive) == 0 || verb == 0 && len(alive) < 3:
		w.start(run)
	case verb == 1 && len(w.late) > 0:
		w.arrive(w.draw() % len(w.late))
	case verb == 2:
		w.kill(alive[w.draw()%len(alive)])
	case verb == 3 && w.expired:
		clear(w.rows)
	case verb <= 4 || len(calls) == 0:
		time.Sleep(time.Duration(1+w.draw()%64) * 250 * time.Millisecond)
	default:
		w.grant(calls[w.draw()%len(calls)], w.fault())
	}
}

func (w *world) draw() int {
	if len(w.tape) == 0 {
		return 0
	}
	b := w.tape[0]
	w.tape = w.tape[1:]
	return int(b)
}

// fault returns none two times out of three.
func (w *world) fault() fault {
	if f := fault(w.draw() % (3 * int(faults))); f < faults {
		return f
	}
	return none
}

func (w *world) arrive(i int) {
	happen := w.late[i]
	w.late = append(w.late[:i:i], w.late[i+1:]...)
	happen()
}

// stopped returns why a writer has stopped the stream.
func (w *world) stopped() error {
	for _, p := range w.processes {
		if err := p.stopped(); err != nil {
			return err
		}
	}
	return nil
}

// check is the oracle: every accepted row is stored exactly once, or is a dead
// letter where it must be; the stream is stopped only if a part of an insert was
// stored.
func (w *world) check() error {
	if w.broken != nil {
		return w.broken
	}
	if stopped := w.stopped(); stopped != nil {
		if !w.torn {
			return fmt.Errorf("stopped without need: %w", stopped)
		}
		return w.checkRows(false)
	}
	if err := w.checkRows(true); err != nil {
		return err
	}
	return w.checkUsage()
}

func (w *world) checkRows(all bool) error {
	for seq := uint64(1); seq <= uint64(w.messages); seq++ {
		bad, want := w.is(w.poison|w.undecodable, seq), rowsOf(seq)
		if bad {
			want = 0
		}
		switch {
		case w.rows[seq] > want:
			return fmt.Errorf("message %d: %d rows are stored of %d", seq, w.rows[seq], want)
		case all && !w.expired && w.rows[seq] < want:
			return fmt.Errorf("message %d: only %d rows are stored of %d", seq, w.rows[seq], want)
		case all && bad != (w.dead[seq] == 1):
			return fmt.Errorf("message %d: %d dead letters", seq, w.dead[seq])
		}
	}
	return nil
}

func (w *world) checkUsage() error {
	want, got := map[string]uint64{}, map[string]uint64{}
	for seq := uint64(1); seq <= uint64(w.messages); seq++ {
		switch {
		case w.is(w.undecodable, seq):
		case w.is(w.poison, seq):
			want["dropped incorrect_data"] += uint64(rowsOf(seq))
		default:
			want["logs "] += uint64(rowsOf(seq))
		}
	}
	for _, r := range w.usage {
		if r.Measure != measureBatches {
			got[r.Measure+" "+r.Reason] += r.Records
		}
	}
	if fmt.Sprint(want) != fmt.Sprint(got) {
		return fmt.Errorf("usage is %v, not %v", got, want)
	}
	return nil
}

// drawPlot draws a run. Bad messages, parts of inserts and passed retentions are
// rare; otherwise hardly any run would be without them.
func drawPlot(rt *rapid.T) plot {
	length := rapid.SampledFrom([]int{0, 30, 100, 300}).Draw(rt, "length")
	p := plot{
		messages: rapid.IntRange(1, 9).Draw(rt, "messages"),
		midnight: rapid.IntRange(0, 12).Draw(rt, "midnight"),
		limits:   rapid.SliceOfN(rapid.IntRange(1, 600), 1, 4).Draw(rt, "limits"),
		partial:  rapid.IntRange(0, 5).Draw(rt, "partial") == 5,
		tape:     rapid.SliceOfN(rapid.Byte(), length, length).Draw(rt, "tape"),
	}
	mask := uint16(1)<<p.messages - 1
	if rapid.IntRange(0, 2).Draw(rt, "bad") == 2 {
		p.undecodable = rapid.Uint16().Draw(rt, "undecodable") & rapid.Uint16().Draw(rt, "few") & mask
		p.poison = rapid.Uint16().Draw(rt, "poison") & mask &^ p.undecodable
	} else {
		p.expired = rapid.IntRange(0, 4).Draw(rt, "expired") == 4
	}
	return p
}

func TestWriterStoresEveryRowOnceWhateverFails(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		if err := play(t, drawPlot(rt), goodWriter); err != nil {
			rt.Fatal(err)
		}
	})
}

// The same runs must catch writers that are known to be bad; otherwise the model is
// blind.
func TestModelCatchesBadWriters(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(context.Context, *process) error{"naive": naiveWriter, "token only": tokenWriter} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := play(t, plot{messages: 9, midnight: 4, limits: []int{600}}, run); err != nil {
				t.Fatalf("without any fault: %v", err)
			}
			caught := map[string]int{}
			for seed := range uint64(200) {
				chance := rand.New(rand.NewPCG(seed, 0))
				p := plot{messages: 9, midnight: chance.IntN(12), limits: []int{1 + chance.IntN(600)}, tape: make([]byte, 200)}
				for i := range p.tape {
					p.tape[i] = byte(chance.Uint32())
				}
				if err := play(t, p, run); err != nil {
					caught[fmt.Sprintf("%.9s", err)]++
				}
			}
			if len(caught) == 0 {
				t.Fatal("it passed 200 runs")
			}
			t.Log(caught)
		})
	}
}

// naiveWriter inserts and then commits, without an intent.
func naiveWriter(ctx context.Context, p *process) error {
	return badWriter(ctx, p, func(position ledger.Position, in ledger.Intent) (string, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		token := fmt.Sprintf("%d-%d-%d-%d", p.id, position.Epoch, in.From, len(p.tape)) // a new one for each attempt
		p.intents[token] = true
		return token, nil
	})
}

// tokenWriter writes intents and trusts the token alone: it inserts with the same
// token until ClickHouse acknowledges.
func tokenWriter(ctx context.Context, p *process) error {
	return badWriter(ctx, p, func(_ ledger.Position, in ledger.Intent) (string, error) { return tokenOf("LOGS_0", &in), nil })
}

func badWriter(ctx context.Context, p *process, name func(ledger.Position, ledger.Intent) (string, error)) error {
	positions, sink := fakeLedger{p}, fakeSink{p}
	position, err := positions.TakeOver(ctx, "")
	for err == nil && position.Committed < uint64(p.messages) {
		in := ledger.Intent{From: position.Committed + 1, To: min(position.Committed+3, uint64(p.messages)), Attempt: 1}
		if position.Intent != nil {
			in = *position.Intent
		}
		if position, err = positions.Intend(ctx, "", position, in); err != nil {
			return err
		}
		if err = p.storeBadly(ctx, sink, position, in, name); err != nil {
			return err
		}
		position, err = positions.Commit(ctx, "", position, in.To, time.Time{})
	}
	return err
}

func (p *process) storeBadly(ctx context.Context, sink fakeSink, position ledger.Position, in ledger.Intent, name func(ledger.Position, ledger.Intent) (string, error)) error {
	r := newRows(record.KindLog, "LOGS_0", 0)
	for seq := in.From; seq <= in.To; seq++ {
		if _, err := r.add(p.message(seq)); err != nil {
			return err
		}
	}
	for _, part := range r.parts {
		for {
			token, err := name(position, in)
			if err == nil {
				err = sink.InsertLogs(ctx, token, &part.logs)
			}
			if err == nil {
				break
			}
			if errors.Is(err, errDied) || ctx.Err() != nil {
				return err
			}
		}
	}
	known := newSums(time.Now())
	if err := known.load(ctx, sink, "LOGS_0", r.usage); err != nil {
		return err
	}
	return sink.InsertUsage(ctx, fmt.Sprint(position.Epoch, in.From), known.add("LOGS_0", in.To, r.usage))
}

func TestCountIsComparedWithWhatIsExpected(t *testing.T) {
	t.Parallel()
	distinct := func(n uint64) clickhouse.Count { return clickhouse.Count{Rows: n, Distinct: n} }
	full := expectation{want: 10, lasting: 10}
	answered := expectation{want: 10, lasting: 10, answered: true}
	for name, test := range map[string]struct {
		want    map[string]expectation
		have    map[string]clickhouse.Count
		missing int
		burnt   bool
		code    string
	}{
		"all there":                         {want: map[string]expectation{"a": full, "b": full}, have: map[string]clickhouse.Count{"a": distinct(10), "b": distinct(10)}},
		"nothing wanted":                    {},
		"nothing there":                     {want: map[string]expectation{"a": full, "b": full}, missing: 2},
		"one there":                         {want: map[string]expectation{"a": full, "b": full}, have: map[string]clickhouse.Count{"b": distinct(10)}, missing: 1},
		"one answered, one never sent":      {want: map[string]expectation{"a": answered, "b": full}, missing: 2},
		"all that is missing was answered":  {want: map[string]expectation{"a": answered, "b": full}, have: map[string]clickhouse.Count{"b": distinct(10)}, missing: 1, burnt: true},
		"a part":                            {want: map[string]expectation{"a": full}, have: map[string]clickhouse.Count{"a": distinct(9)}, code: stopPartFilled},
		"more":                              {want: map[string]expectation{"a": full}, have: map[string]clickhouse.Count{"a": distinct(11)}, code: stopOverfull},
		"all there twice":                   {want: map[string]expectation{"a": full}, have: map[string]clickhouse.Count{"a": {Rows: 20, Distinct: 10}}},
		"a part, and twice":                 {want: map[string]expectation{"a": full}, have: map[string]clickhouse.Count{"a": {Rows: 10, Distinct: 5}}, code: stopPartFilled},
		"another partition":                 {want: map[string]expectation{"a": full}, have: map[string]clickhouse.Count{"a": distinct(10), "c": distinct(1)}, code: stopOverfull},
		"retention of some has passed":      {want: map[string]expectation{"a": {want: 10, lasting: 4}}, have: map[string]clickhouse.Count{"a": distinct(7)}},
		"retention of all has passed":       {want: map[string]expectation{"a": {want: 10}}},
		"less than what lasts":              {want: map[string]expectation{"a": {want: 10, lasting: 4}}, have: map[string]clickhouse.Count{"a": distinct(3)}, code: stopPartFilled},
		"none of what lasts":                {want: map[string]expectation{"a": {want: 10, lasting: 4}}, missing: 1},
		"more, though retention has passed": {want: map[string]expectation{"a": {want: 10}}, have: map[string]clickhouse.Count{"a": distinct(11)}, code: stopOverfull},
	} {
		found := compare(test.want, test.have)
		if len(found.missing) != test.missing || found.burnt != test.burnt || found.code != test.code || (found.wrong != "") != (test.code != "") {
			t.Errorf("%s: found %+v", name, found)
		}
	}
}
