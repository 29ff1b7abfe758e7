package batch

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var (
	limits = Limits{Rows: 100, Bytes: 1000, Age: 500 * time.Millisecond, Idle: 50 * time.Millisecond}
	start  = time.Unix(1_700_000_000, 0)
)

func TestBufferIsFullAtItsRowsOrBytes(t *testing.T) {
	t.Parallel()
	for name, add := range map[string]struct{ rows, bytes int }{"rows": {50, 1}, "bytes": {1, 500}} {
		b := New(limits)
		b.Add(add.rows, add.bytes, 0, start)
		if b.Full() {
			t.Fatalf("%s: half a batch is full", name)
		}
		b.Add(add.rows, add.bytes, 0, start)
		if !b.Full() {
			t.Fatalf("%s: a batch at its limit is not full", name)
		}
		b.Flushed(start)
		if b.Full() || !b.Empty() || b.rows != 0 {
			t.Fatalf("%s: not empty after a flush: %+v", name, b)
		}
	}
}

func TestMessageWithoutRowsMakesTheBatchDue(t *testing.T) {
	t.Parallel()
	b := New(limits)
	b.Add(0, 0, 0, start)
	if b.Empty() || b.Due().IsZero() {
		t.Fatal("a range of messages without rows would never be committed")
	}
}

func TestThirdPartitionDoesNotFit(t *testing.T) {
	t.Parallel()
	b := New(limits)
	b.Add(1, 1, 10, start)
	b.Add(1, 1, 11, start)
	if b.Fits(12) {
		t.Fatal("a third day fits")
	}
	if !b.Fits(10) {
		t.Fatal("a known day does not fit")
	}
	b.Flushed(start)
	if !b.Fits(12) {
		t.Fatal("a flush keeps the days")
	}
}

func TestLoneRowWaitsOnlyForIdle(t *testing.T) {
	t.Parallel()
	b := New(limits)
	b.Flushed(start)
	now := start.Add(time.Minute)
	b.Add(1, 1, 0, now)
	if got := b.Due().Sub(now); got != limits.Idle {
		t.Fatalf("a lone row waits %v", got)
	}
}

func TestSteadyRowsWaitForAge(t *testing.T) {
	t.Parallel()
	b := New(limits)
	b.Flushed(start)
	now := start.Add(10 * time.Millisecond)
	b.Add(1, 1, 0, now)
	b.Add(1, 1, 0, now.Add(300*time.Millisecond))
	if got := b.Due().Sub(now); got != limits.Age {
		t.Fatalf("the first row waits %v", got)
	}
}

// In whatever order messages come, a batch exceeds its limits at most by its last
// message, and counts what was added.
func TestBatchesStayWithinLimits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b, now, rows, bytes := New(limits), start, 0, 0
		for range rapid.IntRange(1, 200).Draw(t, "messages") {
			addRows, addBytes := rapid.IntRange(0, 150).Draw(t, "rows"), rapid.IntRange(0, 1500).Draw(t, "bytes")
			day := rapid.Int64Range(0, 4).Draw(t, "day")
			now = now.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "ms")) * time.Millisecond)
			if b.Full() || !b.Fits(day) {
				b.Flushed(now)
				rows, bytes = 0, 0
			}
			if rows >= limits.Rows || bytes >= limits.Bytes {
				t.Fatalf("not full at %d rows, %d bytes", rows, bytes)
			}
			b.Add(addRows, addBytes, day, now)
			rows, bytes = rows+addRows, bytes+addBytes
			if b.rows != rows || b.Empty() || len(b.days) > maxPartitions {
				t.Fatalf("counts %+v of %d rows", b, rows)
			}
			if due := b.Due(); due.Before(b.opened) || due.After(b.opened.Add(limits.Age)) {
				t.Fatalf("due at %v, opened at %v", due, b.opened)
			}
		}
	})
}
