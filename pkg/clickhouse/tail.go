package clickhouse

import (
	"context"
	"fmt"
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
// its messages in the order of their sequences, so a place in that order is one
// row for each shard; there is no order among shards that a later row could not
// break. Accepted loss: an insert over midnight becomes visible in two steps,
// and a look between the two may pass the first day's rows over.

const (
	// tailSlack is how much older than the tail's begin a row may be: by the
	// queue's clock, which may differ from this one, and by waiting there.
	tailSlack = time.Hour
	// tailReach is how far back a tail may be taken up again.
	tailReach = 24 * time.Hour
	// MaxTail bounds the logs of one Follow.
	MaxTail = 1000
	// A look at a project with many logs takes long, unless it looks at what is
	// above the lowest sequence of the shards that it knows, which an index
	// tells. Then only every fullLook-th finds the first log in another shard.
	longLook = 20 * time.Millisecond
	fullLook = 4
	// maxMark bounds a mark's text: 256 shards and the longest numbers.
	maxMark = 16 << 10
)

// TailMark is how far a tail has come.
type TailMark struct {
	since int64 // Unix nanoseconds; rows that the queue had before are not looked at
	seqs  []uint64
	idxs  []uint32 // by shard, as seqs

	looks int  // since it was made
	long  bool // the last look at everything took long
}

// String writes the mark as the id of a server-sent event:
// <since>_<shard>-<sequence>-<position>_…
func (m TailMark) String() string {
	text := strconv.AppendInt(nil, m.since, 10)
	for shard, seq := range m.seqs {
		if seq > 0 {
			text = append(append(text, '_'), record.RowID{Shard: uint8(shard), Seq: seq, Idx: m.idxs[shard]}.String()...)
		}
	}
	return string(text)
}

// ParseTailMark reads what String wrote; now bounds how old it may be.
func ParseTailMark(text string, now time.Time) (TailMark, error) {
	invalid := &InvalidError{"Last-Event-ID", "not the id of an event that was sent"}
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
		m.reach(id)
	}
	return m, nil
}

// reach moves the mark to a row. Marks share nothing: it is written to a copy.
func (m *TailMark) reach(id record.RowID) {
	for len(m.seqs) <= int(id.Shard) {
		m.seqs, m.idxs = append(m.seqs, 0), append(m.idxs, 0)
	}
	if known := m.at(int(id.Shard)); id.Seq > known.Seq || id.Seq == known.Seq && id.Idx > known.Idx {
		m.seqs[id.Shard], m.idxs[id.Shard] = id.Seq, id.Idx
	}
}

// at is how far the mark has come in a shard.
func (m TailMark) at(shard int) record.RowID {
	if shard >= len(m.seqs) {
		return record.RowID{}
	}
	return record.RowID{Shard: uint8(shard), Seq: m.seqs[shard], Idx: m.idxs[shard]}
}

func (m TailMark) clone() TailMark {
	m.seqs, m.idxs = slices.Clone(m.seqs), slices.Clone(m.idxs)
	return m
}

// advance lets old rows go, so that a tail of days looks at an hour.
func (m *TailMark) advance(now time.Time) {
	m.since = max(m.since, now.Add(-tailSlack).UnixNano())
}

func (m TailMark) arguments() []any {
	return []any{
		ch.Named("since", m.since),
		ch.Named("seqs", append([]uint64{}, m.seqs...)), // not nil, which would be NULL
		ch.Named("idxs", append([]uint32{}, m.idxs...)),
	}
}

// TailedLog is a log and the mark behind it.
type TailedLog struct {
	Log  StoredLog
	Mark TailMark
}

// Tailed is what one look found: the newest logs in the order in which they
// came, how many older ones were passed over, and where to go on.
type Tailed struct {
	Logs    []TailedLog
	Dropped uint64
	Next    TailMark
}

// Tail is the mark behind all that is stored now.
func (c *Client) Tail(ctx context.Context, project string, now time.Time) (TailMark, error) {
	m := TailMark{since: now.Add(-tailSlack).UnixNano()}
	return c.heads(ctx, project, m)
}

// heads is the mark behind all that is stored now, whatever a filter says of
// it. Rows of one message become visible at once, so a sequence is enough.
func (c *Client) heads(ctx context.Context, project string, m TailMark) (TailMark, error) {
	next, began := m.clone(), time.Now()
	full := !m.long || m.looks%fullLook == 0
	arguments := append(m.arguments()[:2], ch.Named("lowest", m.lowest(full)))
	err := c.read(ctx, "tail_heads", everything(project, query.Query{}), arguments, func(rows driver.Rows) (bool, error) {
		head := record.RowID{Idx: math.MaxUint32}
		if err := rows.Scan(&head.Shard, &head.Seq); err != nil {
			return false, err
		}
		next.reach(head)
		return true, nil
	})
	if next.looks++; full {
		next.long = time.Since(began) > longLook
	}
	return next, err
}

// lowest is the lowest sequence of the shards that the mark knows; 0 where
// others count too.
func (m TailMark) lowest(others bool) uint64 {
	lowest := uint64(0)
	if others {
		return lowest
	}
	for _, seq := range m.seqs {
		if seq > 0 && (lowest == 0 || seq < lowest) {
			lowest = seq
		}
	}
	return lowest
}

// upTo are the parameters of what lies between the mark and the heads.
func (m TailMark) upTo(heads TailMark) []any {
	lowest := uint64(math.MaxUint64)
	for shard, seq := range heads.seqs {
		known := m.at(shard)
		if seq > known.Seq || seq == known.Seq && heads.idxs[shard] > known.Idx {
			lowest = min(lowest, known.Seq)
		}
	}
	return append(m.arguments(), ch.Named("heads", append([]uint64{}, heads.seqs...)), ch.Named("lowest", lowest))
}

// everything is the scope of all times.
func everything(project string, filter query.Query) scope {
	return scope{project, math.MinInt64, math.MaxInt64, filter}
}

// Follow reads what was stored since the mark, at most limit logs. The heads
// are read first: they bound the set, so that no row that arrives meanwhile is
// counted as dropped and shown as well.
func (c *Client) Follow(ctx context.Context, project string, filter query.Query, m TailMark, limit int, now time.Time) (Tailed, error) {
	if limit < 1 || limit > MaxTail {
		return Tailed{}, &InvalidError{"limit", fmt.Sprintf("%d is not within 1 to %d", limit, MaxTail)}
	}
	heads, err := c.heads(ctx, project, m)
	if err != nil {
		return Tailed{}, err
	}
	answer := Tailed{Next: heads}
	answer.Next.advance(now)
	if slices.Equal(heads.seqs, m.seqs) && slices.Equal(heads.idxs, m.idxs) {
		return answer, nil
	}
	s := everything(project, filter)
	bounds := m.upTo(heads)
	logs, err := c.readLogs(ctx, "tail", s, append(bounds, ch.Named("limit", limit)))
	if err != nil {
		return Tailed{}, err
	}
	slices.Reverse(logs)
	answer.Logs = marked(m.clone(), logs)
	if len(logs) == limit || full(logs) {
		answer.Dropped, err = c.dropped(ctx, s, bounds, len(logs))
	}
	return answer, err
}

// full tells whether a look ended early because of the logs' size.
func full(logs []StoredLog) bool {
	size := 0
	for i := range logs {
		size += logs[i].size()
	}
	return size > maxPageBytes
}

// marked gives each log the mark behind it.
func marked(m TailMark, logs []StoredLog) []TailedLog {
	list := make([]TailedLog, len(logs))
	for i, l := range logs {
		m.reach(l.ID)
		list[i] = TailedLog{l, m.clone()}
	}
	return list
}

// dropped counts what a look passed over.
func (c *Client) dropped(ctx context.Context, s scope, bounds []any, shown int) (uint64, error) {
	var n uint64
	err := c.read(ctx, "tail_count", s, bounds, func(rows driver.Rows) (bool, error) {
		return true, rows.Scan(&n)
	})
	return n - min(n, uint64(shown)), err
}
