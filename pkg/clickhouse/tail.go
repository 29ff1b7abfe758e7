package clickhouse

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/logboom/logboom/pkg/query"
	"github.com/logboom/logboom/pkg/record"
)

// A tail follows logs in the order in which they are stored. Each shard stores
// its messages in the order of their sequences, so a position in that order is
// one row for each shard; among shards there is no order that a later row could
// not break. Accepted loss: an insert over midnight becomes visible in two
// steps, and a read between the two may miss the rows of the first day.

const (
	// tailSlack is how much older than the begin of the tail a row may be. The
	// queue's clock may differ from this one, and rows wait in the queue.
	tailSlack = time.Hour
	// tailReach is how far back a tail may be resumed.
	tailReach = 24 * time.Hour
	// Reading the heads of all shards takes long in a project with many logs.
	// Above the lowest sequence of the known shards an index finds them quickly;
	// then only one read in fullReadEvery finds the first log of another shard.
	slowRead      = 20 * time.Millisecond
	fullReadEvery = 4
	// maxMark bounds the text of a mark: 256 shards with the longest numbers.
	maxMark = 16 << 10
)

// TailMark is how far a tail has read. It is a value: no two share memory.
type TailMark struct {
	since int64 // Unix nanoseconds; rows that the queue received earlier are ignored
	seqs  []uint64
	idxs  []uint32 // by shard, like seqs

	reads int  // since the mark was created
	slow  bool // the last read of all shards took long
}

// String returns the mark as the ID of a server-sent event:
// <since>_<shard>-<sequence>-<position>_…
func (m TailMark) String() string {
	text := strconv.AppendInt(nil, m.since, 10)
	for shard, seq := range m.seqs {
		if seq > 0 {
			text = append(append(text, '_'), m.at(shard).String()...)
		}
	}
	return string(text)
}

// ParseTailMark parses what String returns. A mark that is older than a day
// before now is moved there.
func ParseTailMark(text string, now time.Time) (TailMark, error) {
	invalid := &InvalidError{"Last-Event-ID", "not the ID of an event of a tail"}
	if len(text) > maxMark {
		return TailMark{}, invalid
	}
	parts := strings.Split(text, "_")
	since, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil {
		return TailMark{}, invalid
	}
	m := TailMark{since: max(since, now.Add(-tailReach).UnixNano())}
	for _, part := range parts[1:] {
		id, err := record.ParseRowID(part)
		if err != nil {
			return TailMark{}, invalid
		}
		m.advance(id)
	}
	return m, nil
}

// advance moves the mark to a row, unless it is further. It changes the mark's
// memory: callers clone first.
func (m *TailMark) advance(id record.RowID) {
	for len(m.seqs) <= int(id.Shard) {
		m.seqs, m.idxs = append(m.seqs, 0), append(m.idxs, 0)
	}
	if known := m.at(int(id.Shard)); id.Seq > known.Seq || id.Seq == known.Seq && id.Idx > known.Idx {
		m.seqs[id.Shard], m.idxs[id.Shard] = id.Seq, id.Idx
	}
}

// at returns the last row that the tail has read of a shard.
func (m TailMark) at(shard int) record.RowID {
	if shard >= len(m.seqs) {
		return record.RowID{Shard: uint8(shard)}
	}
	return record.RowID{Shard: uint8(shard), Seq: m.seqs[shard], Idx: m.idxs[shard]}
}

func (m TailMark) clone() TailMark {
	m.seqs, m.idxs = slices.Clone(m.seqs), slices.Clone(m.idxs)
	return m
}

// forget moves the begin to an hour before now, so that a tail of days reads an
// hour.
func (m *TailMark) forget(now time.Time) {
	m.since = max(m.since, now.Add(-tailSlack).UnixNano())
}

// arguments returns the parameters of the rows after the mark, in shards whose
// sequences are at least lowest.
func (m TailMark) arguments(lowest uint64) []any {
	return []any{
		ch.Named("lowest", lowest),
		ch.Named("since", m.since),
		ch.Named("seqs", append([]uint64{}, m.seqs...)), // not nil, which would be NULL
		ch.Named("idxs", append([]uint32{}, m.idxs...)),
	}
}

// TailedLog is a log and the mark after it.
type TailedLog struct {
	Log  StoredLog
	Mark TailMark
}

// Tailed is what one Follow read.
type Tailed struct {
	Logs    []TailedLog // the newest, in the order in which they were stored
	Dropped uint64      // older logs that were left out
	Next    TailMark    // where the next Follow begins
}

// Tail returns the mark after all logs that are stored now.
func (c *Client) Tail(ctx context.Context, project string, now time.Time) (TailMark, error) {
	return c.heads(ctx, project, TailMark{since: now.Add(-tailSlack).UnixNano()})
}

// heads returns the mark after all logs that are stored now, whether or not a
// filter matches them. Rows of one message become visible together, so a
// sequence is enough.
func (c *Client) heads(ctx context.Context, project string, m TailMark) (TailMark, error) {
	next, began := m.clone(), time.Now()
	full := !m.slow || m.reads%fullReadEvery == 0
	lowest := uint64(0)
	if !full {
		for _, seq := range m.seqs {
			if seq > 0 && (lowest == 0 || seq < lowest) {
				lowest = seq
			}
		}
	}
	err := c.read(ctx, "tail_heads", allTimes(project, query.Query{}), m.arguments(lowest), func(rows driver.Rows) (bool, error) {
		head := record.RowID{Idx: math.MaxUint32}
		if err := rows.Scan(&head.Shard, &head.Seq); err != nil {
			return false, err
		}
		next.advance(head)
		return true, nil
	})
	if next.reads++; full {
		next.slow = time.Since(began) > slowRead
	}
	return next, err
}

// Follow reads what was stored since the mark, at most limit logs. It reads the
// heads first: they bound what it reads, so that a row that arrives meanwhile is
// not both counted as dropped and returned.
func (c *Client) Follow(ctx context.Context, project string, filter query.Query, m TailMark, limit int, now time.Time) (Tailed, error) {
	heads, err := c.heads(ctx, project, m)
	if err != nil {
		return Tailed{}, err
	}
	answer := Tailed{Next: heads}
	answer.Next.forget(now)
	lowest := uint64(math.MaxUint64) // of the shards with new rows
	for shard := range heads.seqs {
		if known := m.at(shard); heads.at(shard) != known {
			lowest = min(lowest, known.Seq)
		}
	}
	if lowest == math.MaxUint64 {
		return answer, nil
	}
	s := allTimes(project, filter)
	bounds := append(m.arguments(lowest), ch.Named("heads", append([]uint64{}, heads.seqs...)))
	logs, err := c.readLogs(ctx, "tail", s, append(bounds, ch.Named("limit", limit)))
	if err != nil {
		return Tailed{}, err
	}
	slices.Reverse(logs)
	size := 0
	for i := range logs {
		size += logs[i].size()
	}
	if len(logs) == limit || size > maxPageBytes { // there may be more
		answer.Dropped, err = c.countTail(ctx, s, bounds)
		answer.Dropped -= min(answer.Dropped, uint64(len(logs)))
	}
	answer.Logs = withMarks(m.clone(), logs)
	return answer, err
}

// withMarks returns each log with the mark after it.
func withMarks(m TailMark, logs []StoredLog) []TailedLog {
	list := make([]TailedLog, len(logs))
	for i, l := range logs {
		m.advance(l.ID)
		list[i] = TailedLog{l, m.clone()}
	}
	return list
}

// countTail counts the logs between a mark and the heads.
func (c *Client) countTail(ctx context.Context, s scope, bounds []any) (n uint64, err error) {
	err = c.read(ctx, "tail_count", s, bounds, func(rows driver.Rows) (bool, error) {
		return true, rows.Scan(&n)
	})
	return n, err
}
