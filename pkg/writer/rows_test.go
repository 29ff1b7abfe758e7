package writer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

// message returns a message with a section of so many rows for each retention.
func message(seq uint64, at time.Time, rows int, data string, retentions ...uint16) stream.Delivery {
	d := stream.Delivery{Stream: "LOGS_0", Seq: seq, Time: at}
	for _, days := range retentions {
		var batch record.Batch
		batch.Reset(record.KindLog, "shop~00000000", days)
		for i := range rows {
			batch.AppendLog(&record.Log{Timestamp: at.UnixNano(), Application: "api", Severity: "INFO", Data: fmt.Sprint(data, i)})
		}
		d.Data = record.AppendBatch(d.Data, &batch)
	}
	return d
}

func TestRowsLastUntilTheirRetentionHasPassed(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC)
	r := newRows(record.KindLog, "LOGS_0", 0)
	if _, err := r.add(message(1, at, 10, "x", 1, 3, 0)); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		now     time.Time
		lasting uint64
	}{
		"at once":                      {at, 30},
		"an hour before a day is over": {time.Date(2026, 11, 22, 22, 59, 0, 0, time.UTC), 30},
		"when their clock may be past": {time.Date(2026, 11, 22, 23, 0, 0, 0, time.UTC), 20},
		"after three days":             {time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC), 10},
		"0 is for ever":                {time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC), 10},
	} {
		if got := r.parts[0].lasting(test.now); got != test.lasting {
			t.Errorf("%s: %d rows last, want %d", name, got, test.lasting)
		}
	}
}

func TestRowsOfTwoDaysAreTwoPartsAndTheirMemoryIsKept(t *testing.T) {
	t.Parallel()
	midnight := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	r := newRows(record.KindLog, "LOGS_0", 0)
	for range 3 {
		for seq, at := range []time.Time{midnight.Add(-1), midnight, midnight.Add(-1)} {
			if _, err := r.add(message(uint64(seq+1), at, 5, "x", 30)); err != nil {
				t.Fatal(err)
			}
		}
		want := r.want()
		if len(want) != 2 || want["20261121"] != 10 || want["20261122"] != 5 || r.len() != 15 {
			t.Fatalf("want %v, %d rows", want, r.len())
		}
		r.reset()
	}
	if len(r.parts) != 0 || len(r.spare) != 2 {
		t.Errorf("%d parts and %d spare ones", len(r.parts), len(r.spare))
	}
}

// BenchmarkRows makes blocks from messages, without the insert.
func BenchmarkRows(b *testing.B) {
	for _, records := range []int{1, 100, 10_000} {
		for _, bytes := range []int{100, 1000} {
			b.Run(fmt.Sprintf("records=%d/bytes=%d", records, bytes), func(b *testing.B) {
				m := message(1, time.Now(), records, strings.Repeat("x", bytes), 30)
				r := newRows(record.KindLog, "LOGS_0", 0)
				b.SetBytes(int64(records * bytes))
				b.ReportAllocs()
				for b.Loop() {
					if r.len() > 100_000 {
						r.reset()
					}
					if _, err := r.add(m); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
