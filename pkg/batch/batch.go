// Package batch decides when a batch must be flushed: by rows, bytes, age and
// partitions. It is pure: it keeps counts and no rows, owns no timer, and the
// caller passes the clock in.
//
// It is used by the writer, between the queue's messages and ClickHouse's blocks.
// What a newcomer would get wrong: call Fits before Add, and Full after it. A
// message is never split between two batches, so that a batch is always a whole
// range of the stream; rows and bytes may exceed their limits by the one message
// that reached them.
package batch

import (
	"slices"
	"time"
)

// maxPartitions is the number of ClickHouse partitions (days) that a batch may
// have. Messages arrive in the order of their time, so a third day can only
// follow after an idle time.
const maxPartitions = 2

// Limits are the bounds of one batch.
type Limits struct {
	Rows  int           // flush at this many rows
	Bytes int           // flush at this many bytes of rows in memory
	Age   time.Duration // flush when the first message has waited this long
	Idle  time.Duration // used instead of Age if the last flush is at least Age ago: a lone message need not wait
}

// Buffer counts what is in the batch that is being gathered.
type Buffer struct {
	limits    Limits
	rows      int
	bytes     int
	days      []int64
	opened    time.Time // when the first message was added; zero while empty
	lastFlush time.Time
}

// New returns an empty Buffer.
func New(limits Limits) *Buffer {
	return &Buffer{limits: limits, days: make([]int64, 0, maxPartitions)}
}

// Empty reports whether nothing was added since the last flush.
func (b *Buffer) Empty() bool { return b.opened.IsZero() }

// Fits reports whether a message of that partition (days since 1970-01-01 UTC)
// may join the batch. If not, flush first.
func (b *Buffer) Fits(day int64) bool {
	return slices.Contains(b.days, day) || len(b.days) < maxPartitions
}

// Add counts a message's rows and their bytes. A message without rows counts
// too: it is part of the range.
func (b *Buffer) Add(rows, bytes int, day int64, now time.Time) {
	if b.Empty() {
		b.opened = now
	}
	b.rows += rows
	b.bytes += bytes
	if !slices.Contains(b.days, day) {
		b.days = append(b.days, day)
	}
}

// Full reports whether the batch has reached its rows or bytes.
func (b *Buffer) Full() bool {
	return b.rows >= b.limits.Rows || b.bytes >= b.limits.Bytes
}

// Due returns the time at which the batch must be flushed because of its age.
// It means nothing while the batch is empty.
func (b *Buffer) Due() time.Time {
	wait := b.limits.Age
	if b.opened.Sub(b.lastFlush) >= b.limits.Age {
		wait = b.limits.Idle
	}
	return b.opened.Add(wait)
}

// Flushed empties the batch.
func (b *Buffer) Flushed(now time.Time) {
	b.rows, b.bytes, b.days = 0, 0, b.days[:0]
	b.opened, b.lastFlush = time.Time{}, now
}
