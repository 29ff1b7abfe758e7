package writer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/stream"
)

// Tables looks after the parts of ClickHouse's tables; clickhouse.Client does.
type Tables interface {
	DiskErrors(ctx context.Context) (uint64, error)
	Unreadable(ctx context.Context, within time.Duration) ([]clickhouse.Part, error)
	SetAside(ctx context.Context) ([]clickhouse.SetAside, error)
	Detach(ctx context.Context, table, part string) error
	Attach(ctx context.Context, table, part string) error
	CountMessages(ctx context.Context, r clickhouse.Range) (map[uint64]uint64, error)
	Doubled(ctx context.Context, r clickhouse.Range, limit int) ([]clickhouse.Message, error)
	PartsOf(ctx context.Context, r clickhouse.Range) (map[string][]string, error)
	EraseRange(ctx context.Context, r clickhouse.Range, parts map[string][]string) error
	Uptime(ctx context.Context) (time.Duration, error)
}

const (
	// healEvery is how often ClickHouse is asked for its errors and for parts
	// beside its tables. Both answers take it a millisecond.
	healEvery = 10 * time.Second
	// healMargin is by how much a part may be older than the error that told of
	// it; an error is counted before its part comes into use.
	healMargin = time.Minute
	// doubtReach is how old the parts are that are read once a count has failed
	// over one that cannot be: about what the queue may still have.
	doubtReach = 2 * time.Hour
	// strayLooks is how many looks an order stands without its part set aside.
	strayLooks = 4
	// putBackTries is how often a part is tried to be put back.
	putBackTries = 3
)

// healer finds what ClickHouse has lost and has it stored again: parts that
// cannot be read, which it takes out of use, and parts beside the tables. Each
// writer has one; what one of them does, another may have done already.
type healer struct {
	*Writer
	met      uint64          // errors of the disk, at the last look
	quiet    time.Time       // the last look that found nothing to look into
	suspect  map[string]bool // parts that could not be read at the last look
	hopeless map[string]bool // parts that cannot be read, whose rows the queue no longer has
	tries    map[string]int  // to put a part back
	strays   map[string]int  // looks that met an order without its part
	told     string          // parts that were told of
	trouble  string          // what was told of the healer itself
}

func newHealer(w *Writer) *healer {
	return &healer{Writer: w, quiet: time.Now(), hopeless: map[string]bool{}, tries: map[string]int{}, strays: map[string]int{}}
}

// heal looks until ctx ends. It goes on after an alarm, since what arrives is
// stored all the same.
func (w *Writer) heal(ctx context.Context) error {
	h := newHealer(w)
	for {
		if w.deps.Tables != nil {
			h.tell(h.look(ctx))
		}
		if err := pause(ctx, w.healEvery); err != nil {
			return err
		}
	}
}

// tell logs why there was no look, once for each reason.
func (h *healer) tell(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != h.trouble {
		h.deps.Logger.Warn("parts of ClickHouse not looked after", "err", err)
	}
	h.trouble = text
}

func (h *healer) look(ctx context.Context) error {
	unfit := h.takeOut(ctx)
	aside, err := h.deps.Tables.SetAside(ctx)
	if err != nil {
		return errors.Join(unfit, err)
	}
	positions, err := h.deps.Ledger.Positions(ctx)
	if err != nil {
		return errors.Join(unfit, err)
	}
	aside = slices.DeleteFunc(aside, func(part clickhouse.SetAside) bool {
		return part.InUse || !part.Broken && !h.ordered(part, positions)
	})
	h.withdraw(ctx, aside, positions)
	aside = slices.DeleteFunc(aside, func(part clickhouse.SetAside) bool { return h.putBack(ctx, part, positions) })
	h.alarm(aside)
	h.setWounds(aside, positions)
	return unfit
}

// takeOut detaches parts that cannot be read, twice in a row, where the queue
// still has all of their rows. Reads fail over such a part, and merges.
func (h *healer) takeOut(ctx context.Context) error {
	met, err := h.deps.Tables.DiskErrors(ctx)
	if err != nil {
		return err
	}
	within := time.Since(h.quiet) + healMargin
	switch doubted := h.doubted(); {
	case doubted:
		within = doubtReach
	case met == h.met && len(h.suspect) == 0:
		h.quiet = time.Now()
		return nil
	}
	bad, err := h.deps.Tables.Unreadable(ctx, within)
	if err != nil {
		return err
	}
	suspect := map[string]bool{}
	for _, part := range bad {
		switch {
		case h.hopeless[part.String()]:
			continue
		case h.suspect[part.String()]:
			err = h.detach(ctx, part)
		default:
			suspect[part.String()] = true
			err = h.order(ctx, part)
		}
		if err != nil {
			return err
		}
	}
	h.met, h.suspect = met, suspect
	return nil
}

// doubted tells once whether a part was met that cannot be read.
func (h *healer) doubted() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	doubt := h.doubt
	h.doubt = false
	return doubt
}

// order has every stream of the part's table mended once it is out of use, and
// the queue keep what it has until then.
func (h *healer) order(ctx context.Context, part clickhouse.Part) error {
	if part.Table == tableUsage {
		return h.swap(ctx, mendReader(usageStream, part.Name), 0, time.Time{})
	}
	positions, err := h.deps.Ledger.Positions(ctx)
	if err != nil {
		return err
	}
	for _, name := range h.streamsOf(part.Table) {
		reader := mendReader(name, part.Name)
		if position, ok := positions[reader]; ok && position.CommittedAt.IsZero() {
			continue
		}
		info, err := h.deps.Queue.Lag(ctx, name)
		if err != nil {
			return err
		}
		if err := h.swap(ctx, reader, info.FirstSeq-1, time.Time{}); err != nil {
			return err
		}
	}
	return nil
}

// swap sets a mending's position, which never goes back.
func (h *healer) swap(ctx context.Context, reader string, to uint64, at time.Time) error {
	position, err := h.deps.Ledger.TakeOver(ctx, reader)
	if err != nil || position.Intent != nil {
		return err // one that is under way is left alone
	}
	_, err = h.deps.Ledger.CommitAt(ctx, reader, position, max(to, position.Committed), at)
	return err
}

// withdraw ends the orders of parts that were found to be good, or were merged
// away: the queue would keep everything for them.
func (h *healer) withdraw(ctx context.Context, aside []clickhouse.SetAside, positions map[string]stream.Position) {
	for reader, position := range positions {
		name, part, ok := strings.Cut(strings.TrimPrefix(reader, stream.WriterKey("")), mendMark)
		if !ok || strings.HasPrefix(part, doubledMark) || !position.CommittedAt.IsZero() || h.suspect[h.tableOf(name)+"/"+part] ||
			slices.ContainsFunc(aside, func(s clickhouse.SetAside) bool { return s.Name == part && s.Table == h.tableOf(name) }) {
			delete(h.strays, reader)
			continue
		}
		if h.strays[reader]++; h.strays[reader] < strayLooks {
			continue
		}
		if err := h.swap(ctx, reader, 0, withdrawn); err != nil {
			h.tell(err)
		}
	}
}

func (h *healer) detach(ctx context.Context, part clickhouse.Part) error {
	for _, name := range h.streamsOf(part.Table) {
		gone, err := forgets(ctx, h.deps.Queue, name, part)
		if err != nil {
			return err
		}
		if gone {
			h.hopeless[part.String()] = true
			h.deps.Logger.Error("part cannot be read and stays in use: the queue no longer has all of its rows; docs/decisions/0006-durability.md says how to go on",
				"part", part.String(), "rows", part.Rows)
			return nil
		}
	}
	if err := h.order(ctx, part); err != nil { // another writer may have withdrawn it
		return err
	}
	if err := h.deps.Tables.Detach(ctx, part.Table, part.Name); err != nil {
		return err
	}
	h.deps.Logger.Error("part taken out of use: it cannot be read, its rows are stored again from the queue", "part", part.String(), "rows", part.Rows)
	return nil
}

// streamsOf is the streams whose rows a table has; none for other tables.
func (w *Writer) streamsOf(table string) []string {
	var names []string
	for _, shard := range w.shards {
		for _, worker := range shard.workers {
			if worker.kind.String() == table {
				names = append(names, worker.stream)
			}
		}
	}
	return names
}

// tableOf is the table that has a stream's rows.
func (w *Writer) tableOf(name string) string {
	for _, shard := range w.shards {
		for _, worker := range shard.workers {
			if worker.stream == name {
				return worker.kind.String()
			}
		}
	}
	return tableUsage
}

// ordered tells whether a stream is to be mended after the part.
func (h *healer) ordered(part clickhouse.SetAside, positions map[string]stream.Position) bool {
	for _, name := range append(h.streamsOf(part.Table), usageStream) {
		if _, ok := positions[mendReader(name, part.Name)]; ok {
			return true
		}
	}
	return false
}

// putBack attaches a part that ClickHouse put aside when it started, which it
// does with good ones too when its disk fails at that moment, and tells whether
// that went well. It must be certain that none of its rows is in use and that
// nobody inserts them again.
func (h *healer) putBack(ctx context.Context, part clickhouse.SetAside, positions map[string]stream.Position) bool {
	if !part.Broken || part.Overlapped || !h.past(ctx, part, positions) {
		return false
	}
	if h.tries[part.String()]++; h.tries[part.String()] > putBackTries {
		return false
	}
	err := h.deps.Tables.Attach(ctx, part.Table, part.Name)
	if err != nil && part.Table == tableUsage {
		// From here on its rows are stored again under other keys.
		err = errors.Join(err, h.swap(ctx, mendReader(usageStream, part.Name), 0, withdrawn))
	}
	if err != nil {
		h.tell(err)
		return false
	}
	h.deps.Logger.Warn("part put back that ClickHouse had put aside", "part", part.String())
	return true
}

// past tells whether nobody inserts rows of the part any more. Rows of usage
// replace themselves, so they may be there twice. Rows of a day come from
// messages of that day: it is over for a stream that has committed a message of
// a later one, where the queue has none of it left to mend with.
func (h *healer) past(ctx context.Context, part clickhouse.SetAside, positions map[string]stream.Position) bool {
	if part.Table == tableUsage {
		return !h.ordered(clickhouse.SetAside{Name: part.Name}, positions)
	}
	names := h.streamsOf(part.Table)
	for _, name := range names {
		position := positions[stream.WriterKey(name)]
		info, err := h.deps.Queue.Lag(ctx, name)
		if err != nil {
			return false
		}
		if info.LastSeq == 0 {
			continue // it was never sent to
		}
		mark, err := h.deps.Queue.First(ctx, name, 0)
		if err != nil || position.Committed == 0 || clickhouse.Partition(position.CommittedAt.UnixNano()) <= part.Partition ||
			mark.Seq != 0 && clickhouse.Partition(mark.Time.UnixNano()) <= part.Partition {
			return false
		}
	}
	return len(names) > 0
}

// alarm tells of parts that lie beside their tables, once for each of them.
func (h *healer) alarm(aside []clickhouse.SetAside) {
	h.metrics.setAside.Set(float64(len(aside)))
	var names []string
	for _, part := range aside[:min(len(aside), 10)] {
		names = append(names, part.String())
	}
	text := strings.Join(names, " ")
	if text != "" && text != h.told {
		h.deps.Logger.Error("ClickHouse has put parts aside as broken: what the queue still has of their rows is stored again, what is older is missing; docs/decisions/0006-durability.md says how to go on",
			"parts", text)
	}
	h.told = text
}

// setWounds tells the workers what to mend: after parts first, since nothing of
// a message may be on its way when its rows are replaced.
func (h *healer) setWounds(aside []clickhouse.SetAside, positions map[string]stream.Position) {
	doubled := h.doubledWounds(positions)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wounds = map[string][]wound{}
	for _, part := range aside {
		h.wounds[part.Table] = append(h.wounds[part.Table], wound{table: part.Table, part: part.Name, partition: part.Partition})
	}
	for table, wounds := range doubled {
		h.wounds[table] = append(h.wounds[table], wounds...)
	}
}

// doubtParts has the healer read all parts that are new enough.
func (w *Writer) doubtParts() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.doubt = true
}

// woundsOf is the parts after which a stream of the kind is to be mended.
func (w *Writer) woundsOf(kind stream.Kind) []wound {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Concat(w.wounds[kind.String()], w.wounds[tableUsage])
}
