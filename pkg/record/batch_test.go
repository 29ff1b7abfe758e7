package record

import (
	"bytes"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// oddLogs changes another part from row to row, so that every flag of a row occurs
// both set and clear.
func oddLogs() []Log {
	return []Log{
		{},
		{Timestamp: 1767323045123456789, Application: "api", SeverityNumber: 9, Severity: "INFO", Data: "one", Host: "node-1", Source: "stdout",
			Metadata: []Pair{{"env", "prod"}, {"user", ""}}},
		{Timestamp: 1767323045124456789, Application: "api", SeverityNumber: 9, Severity: "INFO", Data: "two", Host: "node-1", Source: "stdout",
			Metadata: []Pair{{"env", "prod"}, {"user", "42"}}},
		{Timestamp: 1767323045124456788, Application: "api", SeverityNumber: 0, Severity: "INFO", Data: "no pairs", Host: "node-2", Source: "stdout"},
		{Timestamp: 1767323045124456788, Application: "", SeverityNumber: 0, Severity: "", Data: "the pairs of the row before last",
			Metadata: []Pair{{"env", "prod"}, {"user", "42"}}},
		{Timestamp: math.MaxInt64, Application: "web", Data: "other keys", Metadata: []Pair{{"env", "prod"}}},
		{Timestamp: math.MinInt64, Application: "web", Data: "an empty key", Metadata: []Pair{{"", "x"}, {"env", ""}}},
		{Timestamp: -5_000_000, Data: "\x00\x1b[31m\nhéllo\u2028" + strings.Repeat("long ", 4000)},
	}
}

func oddEvents() []Event {
	return []Event{
		{Timestamp: 1, Channel: "deploys", Title: "shipped", Notify: true, Icon: "🚀", Description: "v1", Tags: []Pair{{"sha", "abc"}}},
		{Timestamp: 2, Channel: "deploys", Title: "shipped", Icon: "🚀", Tags: []Pair{{"sha", "abd"}}},
		{Timestamp: 1_000_002, Channel: "billing", Title: "paid", Notify: true},
		{Timestamp: 1_000_002, Channel: "billing", Title: "paid", Notify: true, Description: "again", Icon: ":moneybag:"},
	}
}

func TestRowsSurviveARoundTrip(t *testing.T) {
	t.Parallel()
	message := AppendBatch(nil, logBatch(oddLogs()...))
	message = AppendBatch(message, eventBatch(oddEvents()...))
	message = AppendBatch(message, logBatch(oddLogs()[1]))

	got, err := readAll(message)
	if err != nil {
		t.Fatal(err)
	}
	wantLogs := append(oddLogs(), oddLogs()[1])
	if !reflect.DeepEqual(got.logs, wantLogs) {
		t.Errorf("logs:\n got %+v\nwant %+v", got.logs, wantLogs)
	}
	if !reflect.DeepEqual(got.events, oddEvents()) {
		t.Errorf("events:\n got %+v\nwant %+v", got.events, oddEvents())
	}
	if want := []string{"01JPROJECT", "01JPROJECT", "01JPROJECT"}; !slices.Equal(got.projects, want) {
		t.Errorf("projects: got %q, want %q", got.projects, want)
	}
	if want := []uint16{30, 7, 30}; !slices.Equal(got.retention, want) {
		t.Errorf("retention: got %d, want %d", got.retention, want)
	}
}

func TestPairsWithOtherKeysSurviveARoundTrip(t *testing.T) {
	t.Parallel()
	want := []Log{{Metadata: []Pair{{"a", "1"}, {"b", "2"}}}, {Metadata: []Pair{{"a", "1"}, {"c", "2"}}}, {Metadata: []Pair{{"a", "1"}, {"c", "2"}}}}
	got, err := readAll(AppendBatch(nil, logBatch(want...)))
	if err != nil || !reflect.DeepEqual(got.logs, want) {
		t.Errorf("got %+v, %v", got.logs, err)
	}
}

func TestAppendCopiesTheRecord(t *testing.T) {
	t.Parallel()
	text := []byte("reused")
	b := logBatch()
	b.AppendLog(&Log{Data: string(text)})
	l := Log{Data: "first", Metadata: []Pair{{"k", "v"}}}
	b.AppendLog(&l)
	l.Data, l.Metadata[0] = "second", Pair{"x", "y"}

	got, err := readAll(AppendBatch(nil, b))
	if err != nil {
		t.Fatal(err)
	}
	if got.logs[1].Data != "first" || got.logs[1].Metadata[0] != (Pair{"k", "v"}) {
		t.Errorf("got %+v", got.logs[1])
	}
}

func TestResetDropsEarlierRows(t *testing.T) {
	t.Parallel()
	used := logBatch(oddLogs()...)
	used.Reset(KindLog, "01JPROJECT", 30)
	if used.Len() != 0 || used.Size() != 0 {
		t.Errorf("after Reset: %d rows, %d bytes", used.Len(), used.Size())
	}
	used.AppendLog(&oddLogs()[1])
	if !bytes.Equal(AppendBatch(nil, used), AppendBatch(nil, logBatch(oddLogs()[1]))) {
		t.Error("a batch used before writes other bytes than a new one")
	}
}

func TestEmptyBatchWritesNothing(t *testing.T) {
	t.Parallel()
	if got := AppendBatch([]byte("before"), logBatch()); string(got) != "before" {
		t.Errorf("got %q", got)
	}
}

func TestPairsAboveTheLimitAreDropped(t *testing.T) {
	t.Parallel()
	pairs := make([]Pair, MaxPairs+1)
	got, err := readAll(AppendBatch(nil, logBatch(Log{Metadata: pairs}, Log{Data: "after"})))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.logs[0].Metadata) != MaxPairs || got.logs[1].Data != "after" {
		t.Errorf("got %d pairs, then %q", len(got.logs[0].Metadata), got.logs[1].Data)
	}
}

func TestRowsThatDoNotShrinkAreNotCompressed(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 6))
	noise := make([]byte, 10_000)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	want := Log{Data: string(noise)}
	message := AppendBatch(nil, logBatch(want))
	got, err := readAll(message)
	if err != nil || len(got.logs) != 1 || got.logs[0].Data != want.Data {
		t.Fatalf("%d logs, %v", len(got.logs), err)
	}
	if message[2] != codecNone || len(message) > len(noise)+100 {
		t.Errorf("codec %d, %d bytes", message[2], len(message))
	}
}

func TestSizeCountsAllText(t *testing.T) {
	t.Parallel()
	l := Log{Application: "1", Severity: "22", Data: "333", Host: "4444", Source: "55555", Metadata: []Pair{{"666666", "7777777"}}}
	if l.Size() != 28 {
		t.Errorf("log: %d", l.Size())
	}
	e := Event{Channel: "1", Title: "22", Description: "333", Icon: "4444", Tags: []Pair{{"55555", "666666"}}}
	if e.Size() != 21 {
		t.Errorf("event: %d", e.Size())
	}
}

func TestWrongKindPanics(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("an event went into a batch of logs")
		}
	}()
	logBatch().AppendEvent(&Event{})
}

// TestFormatIsUnchanged fails when the bytes on the queue change. A queue may hold
// messages of the previous release, so a change needs a new version byte.
func TestFormatIsUnchanged(t *testing.T) {
	t.Parallel()
	small := oddLogs()[:7]
	for name, b := range map[string]*Batch{
		"logs.hex": logBatch(small[:5]...), "extremes.hex": logBatch(small[5:]...), "events.hex": eventBatch(oddEvents()...),
		"drops.hex": dropBatch(oddDrops()...),
	} {
		if got, want := AppendBatch(nil, b), golden(t, name); !bytes.Equal(got, want) {
			t.Errorf("%s:\n got %x\nwant %x", name, got, want)
		}
	}
}

// TestCompressedFormatIsReadable only reads: the output of S2 may differ between
// releases and processors.
func TestCompressedFormatIsReadable(t *testing.T) {
	t.Parallel()
	got, err := readAll(golden(t, "compressed.hex"))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.logs, oddLogs()) {
		t.Errorf("got %+v", got.logs)
	}
}

func golden(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return b
}

func TestThousandLinesTakeFewBytes(t *testing.T) {
	t.Parallel()
	const most = 80 // bytes a line, the project's limit
	for name, lines := range corpus(t) {
		b := logBatch()
		for _, line := range lines[:1000] {
			b.AppendLog(&Log{Timestamp: 1767323045123456789, Application: name, SeverityNumber: 9, Severity: "INFO", Data: line})
		}
		if size := len(AppendBatch(nil, b)); size > most*b.Len() {
			t.Errorf("%s: %d bytes a line", name, size/b.Len())
		}
	}
}

func TestEncodingAllocatesNothingWhenWarm(t *testing.T) {
	b, logs := new(Batch), oddLogs()
	var dst []byte
	encode := func() {
		b.Reset(KindLog, "01JPROJECT", 30)
		for i := range logs {
			b.AppendLog(&logs[i])
		}
		dst = AppendBatch(dst[:0], b)
	}
	encode()
	if allocs := testing.AllocsPerRun(100, encode); allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}
