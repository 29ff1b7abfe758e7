package writer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/stream"
)

// shelf is ClickHouse as the replacing of doubled rows sees it: parts that never
// change, and deletions that make new ones of them, in the order in which they
// were taken on. Its fields belong to the goroutine that grants.
type shelf struct {
	*world
	parts    []shelved
	pending  []deletion // taken on and not carried out
	last     int        // block or deletion
	unfenced bool       // deletions do not heed the names of parts, which must be caught
}

// shelved is a part: how many rows it has of each message.
type shelved struct {
	name  string
	block int // the last that is in it
	rows  map[uint64]int
}

type deletion struct {
	version int
	r       clickhouse.Range
	names   []string
}

// newShelf has every message once, and some of them twice or three times.
func newShelf(w *world, twice, thrice uint16) *shelf {
	s := &shelf{world: w}
	for _, mask := range []uint16{1<<w.messages - 1, twice, thrice} {
		rows := map[uint64]int{}
		for seq := uint64(1); seq <= uint64(w.messages); seq++ {
			if w.is(mask, seq) {
				rows[seq] = rowsOf(seq)
			}
		}
		s.put(rows)
	}
	return s
}

func (s *shelf) put(rows map[uint64]int) {
	s.last++
	s.parts = append(s.parts, shelved{name: fmt.Sprint("new ", s.last), block: s.last, rows: rows})
}

// merge puts two parts together, now and then.
func (s *shelf) merge() {
	if len(s.pending) > 0 || len(s.parts) < 2 || s.draw()%3 > 0 {
		return // ClickHouse merges no parts of which one is still to be rewritten
	}
	a, b := s.parts[len(s.parts)-2], s.parts[len(s.parts)-1]
	rows := map[uint64]int{}
	for seq := uint64(1); seq <= uint64(s.messages); seq++ {
		rows[seq] = a.rows[seq] + b.rows[seq]
	}
	merged := shelved{name: a.name + "+" + b.name, block: max(a.block, b.block), rows: rows}
	s.parts = append(s.parts[:len(s.parts)-2], merged)
}

// take takes a deletion on.
func (s *shelf) take(r clickhouse.Range, names []string) {
	s.last++
	s.pending = append(s.pending, deletion{version: s.last, r: r, names: names})
}

// carryOut carries out what was taken on.
func (s *shelf) carryOut() {
	for _, d := range s.pending {
		for i, p := range s.parts {
			if p.block > d.version {
				continue
			}
			rows := map[uint64]int{}
			for seq, n := range p.rows {
				if seq < d.r.From || seq > d.r.To || !s.unfenced && !slices.Contains(d.names, p.name) {
					rows[seq] = n
				}
			}
			s.parts[i] = shelved{name: fmt.Sprint(p.name, " ", d.version), block: p.block, rows: rows}
		}
	}
	s.pending = nil
}

// of is how many rows of a message there are.
func (s *shelf) of(seq uint64) (n int) {
	for _, p := range s.parts {
		n += p.rows[seq]
	}
	return n
}

// check is the oracle.
func (s *shelf) check() error {
	for seq := uint64(1); seq <= uint64(s.messages); seq++ {
		if n := s.of(seq); n != rowsOf(seq) {
			return fmt.Errorf("message %d: %d rows are stored of %d", seq, n, rowsOf(seq))
		}
	}
	return s.broken
}

// shelfTables is the shelf as one process sees it.
type shelfTables struct {
	fakeSink
	shelf *shelf
}

func (t shelfTables) ask(ctx context.Context, what string, look func()) error {
	return t.do(ctx, what, func(f fault) error {
		t.shelf.merge()
		if f == failsFirst || f == answerLost {
			return errReset
		}
		look()
		return nil
	})
}

func (t shelfTables) Doubled(ctx context.Context, r clickhouse.Range, limit int) (found []clickhouse.Message, err error) {
	err = t.ask(ctx, "doubled", func() {
		for seq := r.From; seq <= r.To && len(found) < limit; seq++ {
			if t.shelf.of(seq) > rowsOf(seq) {
				found = append(found, clickhouse.Message{Seq: seq, Received: t.time(seq).UnixNano()})
			}
		}
	})
	return found, err
}

func (t shelfTables) PartsOf(ctx context.Context, r clickhouse.Range) (parts map[string][]string, err error) {
	err = t.ask(ctx, "parts", func() {
		parts = map[string][]string{}
		for _, p := range t.shelf.parts {
			for seq := r.From; seq <= r.To; seq++ {
				if p.rows[seq] > 0 {
					parts["all"] = append(parts["all"], p.name)
					break
				}
			}
		}
	})
	return parts, err
}

func (t shelfTables) EraseRange(ctx context.Context, r clickhouse.Range, parts map[string][]string) error {
	return t.do(ctx, "erase", func(f fault) error {
		s, names := t.shelf, parts["all"]
		s.merge()
		switch f {
		case failsFirst, refusal:
			return errReset
		case arrives:
			s.late = append(s.late, func() { s.take(r, names); s.carryOut() })
			return context.DeadlineExceeded
		case half, tornToken: // it is carried out later
			s.take(r, names)
			s.late = append(s.late, s.carryOut)
			return context.DeadlineExceeded
		}
		s.take(r, names)
		s.carryOut()
		if f == answerLost {
			return errReset
		}
		return nil
	})
}

func (t shelfTables) CountRange(ctx context.Context, r clickhouse.Range) (counts map[string]uint64, err error) {
	err = t.ask(ctx, "count", func() {
		counts = map[string]uint64{}
		for seq := r.From; seq <= r.To; seq++ {
			if n := t.shelf.of(seq); n > 0 {
				counts[clickhouse.Partition(t.time(seq).UnixNano())] += uint64(n)
			}
		}
	})
	return counts, err
}

// InsertLogs stores the messages that make so many rows.
func (t shelfTables) InsertLogs(ctx context.Context, token string, block *clickhouse.LogBlock) error {
	n := block.Rows()
	return t.do(ctx, "insert", func(f fault) error {
		s := t.shelf
		s.merge()
		if !s.intents[token] {
			s.broken = fmt.Errorf("token %s was inserted without an intent", token)
		}
		switch f {
		case failsFirst:
			return errReset
		case refusal:
			return &ch.Exception{Code: 117, Message: "incorrect data"} // as a broken connection may look
		case arrives:
			s.late = append(s.late, func() { s.shelve(token, n, false) })
			return context.DeadlineExceeded
		case tornToken:
			s.shelve(token, n, true)
			return errReset
		}
		s.shelve(token, n, false)
		if f == answerLost || f == half {
			return errReset
		}
		return nil
	})
}

func (s *shelf) shelve(token string, n int, torn bool) {
	for day, rows := range s.days(n) {
		key := token + " " + day
		if !s.tokens[key] && !torn {
			s.put(rows)
		}
		s.tokens[key] = true
	}
}

// days is the messages that make so many rows, by partition.
func (s *shelf) days(n int) map[string]map[uint64]int {
	days := map[string]map[uint64]int{}
	for seq := uint64(1); seq <= uint64(s.messages); seq++ {
		if n&rowsOf(seq) == 0 {
			continue
		}
		day := clickhouse.Partition(s.time(seq).UnixNano())
		if days[day] == nil {
			days[day] = map[uint64]int{}
		}
		days[day][seq] = rowsOf(seq)
	}
	return days
}

func (t shelfTables) DiskErrors(context.Context) (uint64, error) { return 0, errors.ErrUnsupported }
func (t shelfTables) Unreadable(context.Context, time.Duration) ([]clickhouse.Part, error) {
	return nil, errors.ErrUnsupported
}

func (t shelfTables) SetAside(context.Context) ([]clickhouse.SetAside, error) {
	return nil, errors.ErrUnsupported
}
func (t shelfTables) Detach(context.Context, string, string) error  { return errors.ErrUnsupported }
func (t shelfTables) Attach(context.Context, string, string) error  { return errors.ErrUnsupported }
func (t shelfTables) Uptime(context.Context) (time.Duration, error) { return 0, errors.ErrUnsupported }
func (t shelfTables) CountMessages(context.Context, clickhouse.Range) (map[uint64]uint64, error) {
	return nil, errors.ErrUnsupported
}

// mendLedger may go on without an intent, as a mending does where all is well.
type mendLedger struct{ fakeLedger }

func (l mendLedger) CommitAt(ctx context.Context, _ string, p stream.Position, to uint64, at time.Time) (stream.Position, error) {
	if to < p.Committed || p.Intent != nil && p.Intent.To != to {
		return p, fmt.Errorf("commit %d is not allowed after %+v", to, p)
	}
	p.Committed, p.CommittedAt, p.Intent = to, at, nil
	return l.swap(ctx, "commit", p)
}

// replacing is a process that replaces doubled rows until all are there once.
func (s *shelf) replacing(ctx context.Context, p *process) error {
	tables := shelfTables{fakeSink{p}, s}
	writer := New(DefaultConfig(), Deps{
		Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
		Queue: fakeQueue{p}, Ledger: mendLedger{fakeLedger{p}}, Sink: tables, Tables: tables,
	})
	worker := writer.shards[0].workers[0]
	worker.position.Committed = uint64(p.messages)
	for {
		err := worker.mendAfter(ctx, wound{table: "logs", part: doubledMark + "1", stream: worker.stream})
		if err == nil || ctx.Err() != nil || errors.Is(err, stream.ErrFenced) || errors.Is(err, errDied) {
			return err
		}
		if err := pause(ctx, mendAgain); err != nil {
			return err
		}
	}
}

// playReplacing is play for this model.
func playReplacing(t *testing.T, p plot, twice, thrice uint16, unfenced bool) (verdict error) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		s := newShelf(newWorld(p), twice, thrice)
		s.unfenced = unfenced
		defer func() {
			for _, p := range s.processes {
				s.kill(p)
				<-p.done
			}
		}()
		if verdict = s.perform(s.replacing); verdict == nil {
			verdict = s.check()
		}
	})
	return verdict
}

func TestDoubledRowsAreThereOnceWhateverFails(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		length := rapid.SampledFrom([]int{0, 30, 100, 300}).Draw(rt, "length")
		p := plot{
			messages: rapid.IntRange(1, 9).Draw(rt, "messages"),
			midnight: rapid.IntRange(0, 12).Draw(rt, "midnight"),
			tape:     rapid.SliceOfN(rapid.Byte(), length, length).Draw(rt, "tape"),
		}
		twice, thrice := rapid.Uint16().Draw(rt, "twice"), rapid.Uint16().Draw(rt, "thrice")
		if err := playReplacing(t, p, twice, thrice&twice, false); err != nil {
			rt.Fatal(err)
		}
	})
}

// Deletions that take whatever is there must be caught, or the model is blind.
func TestModelCatchesDeletionsThatComeLate(t *testing.T) {
	t.Parallel()
	caught := 0
	for seed := range uint64(300) {
		chance := rand.New(rand.NewPCG(seed, 0))
		p := plot{messages: 5, midnight: 12, tape: make([]byte, 200)}
		for i := range p.tape {
			p.tape[i] = byte(chance.Uint32())
		}
		if err := playReplacing(t, p, 0b10110, 0, true); err != nil {
			caught++
		}
		if err := playReplacing(t, p, 0b10110, 0, false); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	if caught == 0 {
		t.Error("none was caught")
	}
	t.Logf("caught in %d of 300 runs", caught)
}
