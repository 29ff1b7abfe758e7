// Package batch says when a batch is to be flushed: by rows, bytes, age and
// partitions. It is pure: it holds counts and no rows, owns no timer, and the
// clock is passed in.
//
// It sits in the writer, between the queue's messages and ClickHouse's blocks.
// What a newcomer would get wrong: ask Fits before Add, and Full after it. A
// message is never split between two batches, so that a batch is always a
// whole range of the stream; rows and bytes may pass their limits by the one
// message that reached them.
package batch

import (
	"slices"
	"time"
)

// maxPartitions is the number of ClickHouse partitions (days) that a batch may
// touch. Messages arrive in the order of their time, so a third day can only
// follow an idle spell.
const maxPartitions = 2

// Limits are the bounds of one batch.
type Limits struct {
	Rows  int           // flush at this many rows
	Bytes int           // flush at this many bytes of rows in memory
	Age   time.Duration // flush when the first row has waited this long
	Idle  time.Duration // the same, where the last flush is at least Age ago: a lone row need not wait
}

// Buffer counts what is in the batch being built.
type Buffer struct {
	limits    Limits
	rows      int
	bytes     int
	days      []int64
	opened    time.Time // when the first item came; zero while empty
	lastFlush time.Time
}

// New is an empty Buffer.
func New(limits Limits) *Buffer {
	return &Buffer{limits: limits, days: make([]int64, 0, maxPartitions)}
}

// Empty tells whether nothing was added since the last flush.
func (b *Buffer) Empty() bool { return b.opened.IsZero() }

// Rows is the number of rows in the batch.
func (b *Buffer) Rows() int { return b.rows }

// Fits tells whether a message of the partition day (days since 1970-01-01
// UTC) may join the batch; if not, flush first.
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

// Full tells whether the batch has reached its rows or bytes.
func (b *Buffer) Full() bool {
	return b.rows >= b.limits.Rows || b.bytes >= b.limits.Bytes
}

// Due is the time at which the batch is to be flushed for its age. It means
// nothing while the batch is empty.
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
