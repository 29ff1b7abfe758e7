package writer

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/stream"
)

// Rows come to be there twice where ClickHouse leaves the folder of an insert
// that it answers with an error, and takes it for a part at its next start. Such
// a message is deleted and stored again from the queue, under an intent:
//
//	intend ─▶ name the parts that have rows ─▶ swap ─▶ delete from these ─┐ ─▶ insert, as any intent ─▶ commit
//	                     ▲                                               │
//	                     └────────────── until there is none ────────────┘
//
// Whoever finds the intent, after a crash at any point, begins with the deletion
// again. One that arrives late does no harm: its parts were named before the
// swap, so before the next owner took over, and a part never changes; what was
// deleted from or stored since is in parts of other names.

// doubledMark begins the name of a mending that no part is lost for. Its time
// follows, since a stream may need another.
const doubledMark = "doubled-"

const (
	// eraseTries is how often in a row the parts of a message may be merged
	// between the look for them and the deletion.
	eraseTries = 10
	// doubledSlice is the messages that one query looks at.
	doubledSlice = 20_000
	// doubledMost is how many that have rows twice are kept in mind.
	doubledMost = 10_000
	// clockMargin is by how much the queue's clock may have been set back while
	// messages arrived. It decides which partitions are looked at.
	clockMargin = 25 * time.Hour
)

// orderDoubled has a stream mended from a message on that has rows twice, and
// the queue keep what it has from there until then. It is the ledger's key of
// that mending, which may stand already.
func orderDoubled(ctx context.Context, ledger Ledger, name string, from uint64) (reader string, err error) {
	positions, err := ledger.Positions(ctx)
	if err != nil {
		return "", err
	}
	for key, position := range positions {
		if strings.HasPrefix(key, mendReader(name, doubledMark)) && position.CommittedAt.IsZero() && position.Committed < from {
			return key, nil
		}
	}
	reader = mendReader(name, fmt.Sprint(doubledMark, time.Now().UnixMilli()))
	position, err := ledger.TakeOver(ctx, reader)
	if err != nil {
		return "", err
	}
	_, err = ledger.CommitAt(ctx, reader, position, max(position.Committed, from-1), time.Time{})
	return reader, err
}

// doubledWounds is the mendings that are ordered and not at their end.
func (w *Writer) doubledWounds(positions map[string]stream.Position) map[string][]wound {
	wounds := map[string][]wound{}
	for key, position := range positions {
		name, part, ok := strings.Cut(strings.TrimPrefix(key, stream.WriterKey("")), mendMark)
		if ok && strings.HasPrefix(part, doubledMark) && position.CommittedAt.IsZero() {
			table := w.tableOf(name)
			wounds[table] = append(wounds[table], wound{table: table, part: part, stream: name})
		}
	}
	return wounds
}

// replaces tells whether an intent of the reader's is of messages whose rows go
// before they are stored again.
func replaces(reader string) bool { return strings.Contains(reader, mendMark+doubledMark) }

// doubled is the first messages from..to that have rows twice and that the queue
// still has, by sequence, at most so many.
func (w *worker) doubled(ctx context.Context, from, to uint64, most int) ([]clickhouse.Message, error) {
	mark, err := w.deps.Queue.First(ctx, w.stream, from)
	if err != nil || mark.Seq == 0 {
		return nil, err
	}
	var found []clickhouse.Message
	for from = mark.Seq; from <= to && len(found) < most; from += doubledSlice {
		some, err := w.deps.Tables.Doubled(ctx, clickhouse.Range{
			Kind: recordKind(w.kind), Shard: w.rows.shard, From: from, To: min(from+doubledSlice-1, to),
			ReceivedMin: mark.Time.Add(-clockMargin).UnixNano(), ReceivedMax: time.Now().Add(clockMargin).UnixNano(),
		}, most-len(found))
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	return found, nil
}

// replaceDoubled replaces every message that has rows twice.
func (m *mender) replaceDoubled(ctx context.Context) error {
	for {
		found, err := m.doubled(ctx, m.position.Committed+1, m.through, doubledMost)
		if err != nil || len(found) == 0 {
			return err
		}
		for len(found) > 0 {
			if m.givenUp() {
				return errStopping
			}
			if found[0].Seq <= m.position.Committed { // used again by a queue that was lost
				found = found[1:]
				continue
			}
			n := neighbours(found)
			if err := m.replace(ctx, found[:n]); err != nil {
				return err
			}
			found = found[n:]
		}
	}
}

// neighbours is how many of the messages follow each other without a gap, at
// most as many as a mender holds at once.
func neighbours(found []clickhouse.Message) int {
	n := 1
	for n < len(found) && n < mendMessages && found[n].Seq == found[n-1].Seq+1 {
		n++
	}
	return n
}

// replace replaces messages that follow each other. One that the queue does not
// have as its rows have it is left alone: nothing could take their place.
func (m *mender) replace(ctx context.Context, found []clickhouse.Message) error {
	first, last := found[0].Seq, found[len(found)-1].Seq
	deliveries, err := m.deps.Queue.Refetch(ctx, m.stream, first, last)
	if err != nil {
		return fmt.Errorf("read %d to %d again: %w", first, last, err)
	}
	known := 0
	for known < len(found) && m.known(found[known], deliveries[known]) {
		known++
	}
	if known > 0 {
		if err := m.passBefore(ctx, first); err != nil {
			return err
		}
		if err := m.restore(ctx, first, found[known-1].Seq, nil); err != nil {
			return err
		}
	}
	if known == len(found) {
		return nil
	}
	m.deps.Logger.Error("rows stored twice stay: the queue has another message in their place", "stream", m.stream, "seq", found[known].Seq)
	if err := m.pass(ctx, found[known].Seq); err != nil || known+1 == len(found) {
		return err
	}
	return m.replace(ctx, found[known+1:])
}

// known tells whether a message on the queue is the one that the rows are of.
func (m *mender) known(stored clickhouse.Message, queued stream.Delivery) bool {
	rows, _ := m.expect(queued)
	return rows > 0 && queued.Time.UnixNano() == stored.Received
}

// passBefore notes that everything before a message is there once.
func (m *mender) passBefore(ctx context.Context, seq uint64) error {
	if m.position.Committed+1 == seq {
		return nil
	}
	return m.pass(ctx, seq-1)
}

// erase deletes what is stored of the intent in hand.
func (s *settlement) erase(ctx context.Context) error {
	asked := s.asked()
	for range eraseTries {
		parts, err := s.deps.Tables.PartsOf(ctx, asked)
		if err != nil || len(parts) == 0 {
			return err
		}
		if err := s.hold(ctx, false); err != nil { // after the look, before the deletion
			return err
		}
		if err := s.failpoints.hit(pointBeforeErase); err != nil {
			return err
		}
		if err := s.deps.Tables.EraseRange(ctx, asked, parts); err != nil {
			return err
		}
		if err := s.failpoints.hit(pointAfterErase); err != nil {
			return err
		}
	}
	return fmt.Errorf("rows of %d to %d are still there after %d deletions: their parts were merged each time", asked.From, asked.To, eraseTries)
}

// overfull looks again at an intent that has more rows than wanted. Where whole
// blocks are there more than once, nothing is missing of them: they count as if
// they were there once, and are replaced when the intent is committed, under an
// intent that says so. A deletion under this one could be under way still when
// the next owner counts.
func (s *settlement) overfull(ctx context.Context, have map[string]uint64, found finding) (finding, error) {
	if s.deps.Tables == nil || replaces(s.reader) {
		return found, nil
	}
	covers, once := s.covers(), maps.Clone(have)
	for partition, n := range have {
		want := covers[partition].want
		if want == 0 || n > want && n%want != 0 {
			return found, nil
		}
		once[partition] = min(n, want)
	}
	twice, err := s.deps.Tables.Doubled(ctx, s.asked(), 1)
	if err != nil || len(twice) == 0 {
		return found, err
	}
	if _, err := orderDoubled(ctx, s.deps.Ledger, s.stream, twice[0].Seq); err != nil {
		return found, err
	}
	s.deps.Logger.Error("rows stored twice are to be replaced from the queue", "stream", s.stream, "seq", twice[0].Seq)
	return judge(covers, once), nil
}
