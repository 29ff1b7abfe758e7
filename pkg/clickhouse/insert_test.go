package clickhouse

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/logboom/logboom/pkg/record"
)

// encodings are the parameters of the URL by how an insert is sent.
var encodings = map[string]string{"plain": "", "compressed": "?compress=lz4"}

// noon is a time of receipt far from the end of a day: yesterday's noon. Rows of a
// fixed day would be deleted one day, because of their retention.
var noon = time.Now().UTC().Truncate(24 * time.Hour).Add(-12 * time.Hour).UnixNano()

const project = "demo~k3x9qa7d"

// oddTexts returns texts that a layer between the client and the disk could change.
func oddTexts() []string {
	return []string{
		"",
		" ",
		"plain",
		"\x00 leading, in\x00side and trailing NUL \x00",
		"tab\t newline\n return\r escape\x1b[31m bell\a",
		`quote' double" back\slash \N \0 {project:String} ?`,
		"'; DROP TABLE logs; --",
		"Größe 日本語 🪵 \u202e right-to-left \u200b zero width \ufeff",
		"\u0085\u2028\u2029",
		"__exception__\r\n",
		strings.Repeat("x", 127) + strings.Repeat("ä", 64),
		strings.Repeat("0123456789abcdef", 1<<16), // 1 MiB
	}
}

func manyPairs(n int) []record.Pair {
	pairs := make([]record.Pair, n)
	for i := range pairs {
		pairs[i] = record.Pair{Key: fmt.Sprintf("key.%d", i), Value: strings.Repeat("v", i)}
	}
	return pairs
}

func oddLogs() []record.Log {
	var logs []record.Log
	for i, text := range oddTexts() {
		short := text[:min(len(text), 200)]
		logs = append(logs, record.Log{
			Timestamp: noon + int64(i), Application: short, Severity: short, Data: text, Host: short, Source: short,
			Metadata: []record.Pair{{Key: "of " + short, Value: text}, {Key: "", Value: ""}},
		})
	}
	for number := range 25 {
		logs = append(logs, record.Log{Timestamp: noon - int64(number), SeverityNumber: uint8(number), Severity: "severity"})
	}
	for _, timestamp := range []int64{math.MinInt64 + 1, -1, 0, 1, math.MaxInt64} {
		logs = append(logs, record.Log{Timestamp: timestamp, Data: "extreme"})
	}
	return append(logs, record.Log{Timestamp: noon, Metadata: manyPairs(128)})
}

func asMap(pairs []record.Pair) map[string]string {
	m := make(map[string]string, len(pairs))
	for _, p := range pairs {
		m[p.Key] = p.Value
	}
	return m
}

func asStored(id record.RowID, l record.Log) StoredLog {
	return StoredLog{
		ID: id, Timestamp: time.Unix(0, l.Timestamp).UTC(), Application: l.Application, Severity: l.Severity,
		SeverityNumber: l.SeverityNumber, Data: l.Data, Metadata: asMap(l.Metadata), Host: l.Host, Source: l.Source,
	}
}

func TestLogsComeBackByteForByte(t *testing.T) {
	t.Parallel()
	for name, parameters := range encodings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := migrated(t, parameters)
			var block LogBlock
			want := map[record.RowID]StoredLog{}
			for i, l := range oddLogs() {
				row := Row{Shard: 3, Seq: math.MaxUint64, Idx: uint32(i), Received: noon, Project: project, RetentionDays: 30}
				block.Append(row, &l)
				id := record.RowID{Shard: 3, Seq: math.MaxUint64, Idx: uint32(i)}
				want[id] = asStored(id, l)
			}
			if err := client.InsertLogs(t.Context(), "odd", &block); err != nil {
				t.Fatal(err)
			}
			checkLogs(t, allLogs(t, client, project, 100), want)
		})
	}
}

func checkLogs(t *testing.T, got []StoredLog, want map[record.RowID]StoredLog) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("read %d logs, want %d", len(got), len(want))
	}
	for _, l := range got {
		if !reflect.DeepEqual(l, want[l.ID]) {
			t.Errorf("log %s:\n got %.300q\nwant %.300q", l.ID, fmt.Sprint(l), fmt.Sprint(want[l.ID]))
		}
	}
}

func TestEventsComeBackByteForByte(t *testing.T) {
	t.Parallel()
	for name, parameters := range encodings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := migrated(t, parameters)
			var block EventBlock
			want := map[record.RowID]StoredEvent{}
			for i, text := range oddTexts() {
				short := text[:min(len(text), 200)]
				e := record.Event{
					Timestamp: noon + int64(i), Channel: short, Title: text, Description: text, Icon: short,
					Notify: i%2 == 0, Tags: manyPairs(i % 3),
				}
				block.Append(Row{Seq: 1, Idx: uint32(i), Received: noon, Project: project}, &e)
				id := record.RowID{Shard: 0, Seq: 1, Idx: uint32(i)}
				want[id] = StoredEvent{
					ID: id, Timestamp: time.Unix(0, e.Timestamp).UTC(), Channel: short, Title: text, Description: text,
					Icon: short, Notify: e.Notify, Tags: asMap(e.Tags),
				}
			}
			if err := client.InsertEvents(t.Context(), "odd", &block); err != nil {
				t.Fatal(err)
			}
			page, err := client.Events(t.Context(), EventQuery{Project: project})
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Events) != len(want) || page.Next != "" {
				t.Fatalf("read %d events and next %q, want %d and no next", len(page.Events), page.Next, len(want))
			}
			for _, e := range page.Events {
				if !reflect.DeepEqual(e, want[e.ID]) {
					t.Errorf("event %s: got %.300q, want %.300q", e.ID, fmt.Sprint(e), fmt.Sprint(want[e.ID]))
				}
			}
		})
	}
}

func TestDictionariesOfEveryWidthComeBack(t *testing.T) {
	t.Parallel()
	for name, parameters := range encodings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := migrated(t, parameters)
			for _, rows := range []int{1, 255, 256, 257, 65535, 65536, 70000} {
				var block LogBlock
				for i := range rows {
					l := record.Log{Timestamp: noon, Host: fmt.Sprintf("host-%d", i)}
					block.Append(Row{Seq: uint64(rows), Idx: uint32(i), Received: noon, Project: project}, &l)
				}
				if err := client.InsertLogs(t.Context(), fmt.Sprint(rows), &block); err != nil {
					t.Fatal(err)
				}
				var distinct uint64
				query := "SELECT countDistinct(host) FROM logs WHERE _seq = ? AND host = concat('host-', toString(_idx))"
				if err := client.conn.QueryRow(t.Context(), query, rows).Scan(&distinct); err != nil {
					t.Fatal(err)
				}
				if distinct != uint64(rows) {
					t.Errorf("%d hosts came back as %d", rows, distinct)
				}
			}
		})
	}
}

// fill appends n plain logs of one message.
func fill(block *LogBlock, shard uint8, seq uint64, received int64, n int) {
	for i := range n {
		l := record.Log{Timestamp: received + int64(i), Data: fmt.Sprintf("line %d of message %d", i, seq)}
		block.Append(Row{Shard: shard, Seq: seq, Idx: uint32(i), Received: received, Project: project}, &l)
	}
}

func TestRowsOfOneTokenAreStoredOnce(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	var block LogBlock
	fill(&block, 1, 7, noon, 10)
	for _, step := range []struct {
		token string
		want  uint64
	}{{"first", 10}, {"first", 10}, {"second", 20}, {"first", 20}} {
		if err := client.InsertLogs(t.Context(), step.token, &block); err != nil {
			t.Fatal(err)
		}
		counts, err := client.CountRange(t.Context(), Range{record.KindLog, 1, 7, 7, noon, noon})
		if err != nil {
			t.Fatal(err)
		}
		want := Count{Rows: step.want, Distinct: 10}
		if step.want > 10 {
			want.FirstDoubled, want.LastDoubled = 7, 7
		}
		if want := map[string]Count{Partition(noon): want}; !maps.Equal(counts, want) {
			t.Errorf("after token %s: %v, want %v", step.token, counts, want)
		}
	}
}

func TestMissingPartitionIsStoredUnderTheSameToken(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	night := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC).UnixNano()
	whole := Range{record.KindLog, 0, 1, 2, night - 1, night}
	var before, both LogBlock
	fill(&before, 0, 1, night-1, 3)
	fill(&both, 0, 1, night-1, 3)
	fill(&both, 0, 2, night, 4)

	for _, block := range []*LogBlock{&before, &both, &both} {
		if err := client.InsertLogs(t.Context(), "0-1-2", block); err != nil {
			t.Fatal(err)
		}
	}
	counts, err := client.CountRange(t.Context(), whole)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Count{Partition(night - 1): {Rows: 3, Distinct: 3}, Partition(night): {Rows: 4, Distinct: 4}}
	if !maps.Equal(counts, want) {
		t.Errorf("counted %v, want %v", counts, want)
	}
}

func TestCountRangeKeepsToItsBounds(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	var block LogBlock
	for seq := range uint64(10) {
		fill(&block, uint8(seq%2), seq, noon+int64(seq), 2)
	}
	if err := client.InsertLogs(t.Context(), "bounds", &block); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		r    Range
		want uint64
	}{
		{"all of a shard", Range{record.KindLog, 0, 0, 9, noon, noon + 9}, 10},
		{"some sequences", Range{record.KindLog, 0, 2, 4, noon, noon + 9}, 4},
		{"the other shard", Range{record.KindLog, 1, 2, 4, noon, noon + 9}, 2},
		{"received bounds", Range{record.KindLog, 0, 0, 9, noon + 2, noon + 4}, 4},
		{"no such shard", Range{record.KindLog, 9, 0, 9, noon, noon + 9}, 0},
		{"other kind", Range{record.KindEvent, 0, 0, 9, noon, noon + 9}, 0},
	}
	for _, test := range tests {
		counts, err := client.CountRange(t.Context(), test.r)
		if err != nil {
			t.Fatal(err)
		}
		if counts[Partition(noon)].Rows != test.want {
			t.Errorf("%s: counted %v, want %d", test.name, counts, test.want)
		}
	}
	if _, err := client.CountRange(t.Context(), Range{Kind: 9}); err == nil {
		t.Error("counted a kind without a table")
	}
}

// columnBytes returns how many bytes the block's columns have on the wire.
func columnBytes(b *LogBlock) (n int) {
	for _, f := range b.fields() {
		for _, piece := range f.column.appendWire(nil) {
			n += len(piece)
		}
	}
	return n
}

func TestBlockIsReusable(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	var block LogBlock
	for round := range uint64(3) {
		block.Reset()
		if block.Rows() != 0 || columnBytes(&block) != 0 {
			t.Fatalf("a reset block has %d rows, %d bytes", block.Rows(), columnBytes(&block))
		}
		fill(&block, 0, round, noon, int(round)+1)
		if err := client.InsertLogs(t.Context(), fmt.Sprint(round), &block); err != nil {
			t.Fatal(err)
		}
	}
	logs := allLogs(t, client, project, 100)
	lines := map[string]int{}
	for _, l := range logs {
		lines[l.Data]++
	}
	if len(logs) != 6 || len(lines) != 6 {
		t.Errorf("stored %d rows with %d lines, want 6 of each: %v", len(logs), len(lines), lines)
	}
}

func TestAppendCopiesWhatItBorrows(t *testing.T) {
	t.Parallel()
	buffer := []byte("borrowed")
	borrowed := unsafe.String(&buffer[0], len(buffer)) // as decoding a record does
	var block LogBlock
	l := record.Log{Data: borrowed, Host: borrowed, Metadata: []record.Pair{{Key: borrowed, Value: borrowed}}}
	block.Append(Row{Project: borrowed}, &l)
	before := slices.Concat(appendBlock(nil, block.fields(), 1)...)
	copy(buffer, "scribble")
	if after := slices.Concat(appendBlock(nil, block.fields(), 1)...); !slices.Equal(before, after) {
		t.Error("the block changed with the buffer that a record had borrowed from")
	}
}

func TestEmptyBlocksAreNotSent(t *testing.T) {
	t.Parallel()
	client := opened(t, Config{URL: "http://127.0.0.1:1/nowhere"})
	err := errors.Join(
		client.InsertLogs(t.Context(), "t", &LogBlock{}),
		client.InsertEvents(t.Context(), "t", &EventBlock{}),
		client.InsertUsage(t.Context(), "t", nil),
	)
	if err != nil {
		t.Error(err)
	}
}

// A transport may read a request's body after the request failed. Filling the block
// at that moment must not change what is sent; the race detector would report it.
func TestBlockMayBeFilledWhileAFailedRequestStillReadsIt(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadFull(r.Body, make([]byte, 1000)); err == nil {
			http.Error(w, "Code: 252. DB::Exception: Too many parts. (TOO_MANY_PARTS)", http.StatusInternalServerError)
		}
	}))
	t.Cleanup(server.Close)
	var block LogBlock
	for range 20 {
		block.Reset()
		fill(&block, 0, 1, noon, 20_000)
		body := &pieceReader{pieces: appendBlock(nil, block.fields(), block.Rows())}
		response, err := http.Post(server.URL, "application/octet-stream", body)
		if err == nil {
			_ = response.Body.Close()
		}
		body.detach()
	}
}
