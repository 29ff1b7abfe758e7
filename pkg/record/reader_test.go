package record

import (
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"
)

func TestEveryFlippedBitAndCutIsDetected(t *testing.T) {
	t.Parallel()
	message := AppendBatch(nil, logBatch(oddLogs()[:4]...))
	for i := range message {
		for bit := range 8 {
			damaged := append([]byte(nil), message...)
			damaged[i] ^= 1 << bit
			mustBeCorrupt(t, damaged, 0)
		}
		if i > 0 {
			mustBeCorrupt(t, message[:i], 0)
		}
	}
}

func mustBeCorrupt(t *testing.T, message []byte, offset int) {
	t.Helper()
	var corrupt *CorruptError
	if _, err := readAll(message); !errors.As(err, &corrupt) || corrupt.Offset != offset {
		t.Errorf("got %v, want a CorruptError at %d for %x", err, offset, message)
	}
}

func TestDamageLaterLeavesEarlierSectionsReadable(t *testing.T) {
	t.Parallel()
	message := AppendBatch(nil, logBatch(oddLogs()...))
	at := len(message)
	message = append(message, 0xFF)
	got, err := readAll(message)
	var corrupt *CorruptError
	if !errors.As(err, &corrupt) || corrupt.Offset != at || !strings.HasPrefix(err.Error(), "corrupt section at byte ") {
		t.Errorf("got %v, want a CorruptError at %d", err, at)
	}
	if len(got.logs) != len(oddLogs()) {
		t.Errorf("%d rows before the damage, want %d", len(got.logs), len(oddLogs()))
	}
}

func TestEmptyMessageEndsAtOnce(t *testing.T) {
	t.Parallel()
	var r Reader
	if _, err := r.NextSection(); !errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
}

// TestHostileSectionsAreRefused reads sections with a valid checksum.
func TestHostileSectionsAreRefused(t *testing.T) {
	t.Parallel()
	body := func(rows, raw uint64, rest ...byte) []byte { return append(header(rows, raw), rest...) }
	huge := []byte{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01}
	for name, c := range map[string]struct {
		kind  Kind
		codec byte
		body  []byte
		want  string
	}{
		"an unknown kind":           {4, codecNone, body(1, 3, 0, 0, 0), "unknown kind"},
		"an unknown codec":          {KindLog, 2, body(1, 3, 0, 0, 0), "unknown codec"},
		"no header":                 {KindLog, codecNone, nil, "header"},
		"a header cut":              {KindLog, codecNone, []byte{1, 'p', 30}, "header"},
		"a project past the end":    {KindLog, codecNone, []byte{200, 'p'}, "header"},
		"a long project":            {KindLog, codecNone, append(append([]byte{0x80, 2}, make([]byte, 256)...), 30, 0, 1, 3, 0, 0, 0), "id is too long"},
		"rows beyond the bound":     {KindLog, codecS2, body(1, MaxSectionBytes+1), "too large"},
		"more rows than bytes":      {KindLog, codecNone, body(2, 5, 0, 0, 0, 0, 0), "more rows"},
		"a huge row count":          {KindLog, codecNone, append(append([]byte{1, 'p', 30, 0}, huge...), 3, 0, 0, 0), "more rows"},
		"a length that is not so":   {KindLog, codecNone, body(1, 4, 0, 0, 0), "another length"},
		"an S2 length not so":       {KindLog, codecS2, body(1, 4, s2.Encode(nil, []byte{0, 0, 0})...), "another length"},
		"bad S2":                    {KindLog, codecS2, body(1, 3, 3, 0xFF, 0xFF, 0xFF), "decompressed"},
		"no S2":                     {KindLog, codecS2, body(1, 3), "another length"},
		"unknown flags":             {KindLog, codecNone, body(1, 3, 0x80, 0, 0), "unknown flags"},
		"keys without pairs":        {KindLog, codecNone, body(1, 4, rowKeys, 0, 0, 0), "unknown flags"},
		"a text past the end":       {KindLog, codecNone, body(1, 3, 0, 0, 9), "past the end"},
		"a huge text":               {KindLog, codecNone, body(1, 12, append([]byte{0, 0}, huge...)...), "past the end"},
		"a number cut":              {KindLog, codecNone, body(1, 3, 0, 0x80, 0x80), "a number is cut"},
		"a row cut":                 {KindLog, codecNone, body(1, 4, rowSeverity, 0, 9, 0), "cut"},
		"no row at all":             {KindLog, codecNone, body(1, 3), "another length"},
		"a row without its number":  {KindLog, codecNone, body(2, 6, 0, 0, 0, rowSeverity, 0, 9), "row 1: "},
		"rows without their flags":  {KindLog, codecNone, body(2, 6, 0, 0, 3, 'a', 'b', 'c'), "row 1: cut"},
		"an event cut":              {KindEvent, codecNone, body(1, 4, rowChannel, 0, 9, 0), "past the end"},
		"too many keys":             {KindLog, codecNone, body(1, 8, rowKeys|rowPairs, 0, 0, 0x81, 0x80, 0x04, 0, 0), "too many keys"},
		"more keys than bytes":      {KindLog, codecNone, body(1, 5, rowKeys|rowPairs, 0, 0, 100, 0), "too many keys"},
		"a value past the end":      {KindLog, codecNone, body(1, 6, rowKeys|rowPairs, 0, 0, 1, 0, 9), "past the end"},
		"bytes after the last row":  {KindLog, codecNone, body(1, 4, 0, 0, 0, 0), "left over"},
		"bytes after no row at all": {KindEvent, codecNone, body(0, 1, 0), "left over"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := readAll(section(c.kind, c.codec, c.body))
			var corrupt *CorruptError
			if !errors.As(err, &corrupt) || !strings.Contains(corrupt.Reason, c.want) {
				t.Errorf("got %v, want a reason with %q", err, c.want)
			}
		})
	}
}

func TestDamagedRowStaysDamaged(t *testing.T) {
	t.Parallel()
	var r Reader
	r.Reset(section(KindLog, codecNone, append(header(2, 6), 0, 0, 9, 0, 0, 0)))
	s, err := r.NextSection()
	if err != nil {
		t.Fatal(err)
	}
	_, first := s.NextLog(new(Log))
	_, second := s.NextLog(new(Log))
	if first == nil || !errors.Is(second, first) {
		t.Errorf("first %v, then %v", first, second)
	}
}

func TestRowsOfTheOtherKindAreRefused(t *testing.T) {
	t.Parallel()
	var r Reader
	r.Reset(AppendBatch(nil, logBatch(Log{Data: "x"})))
	s, err := r.NextSection()
	if err != nil {
		t.Fatal(err)
	}
	var corrupt *CorruptError
	if ok, err := s.NextEvent(new(Event)); ok || !errors.As(err, &corrupt) {
		t.Errorf("got %v, %v", ok, err)
	}
}

func TestUnreadSectionDoesNotAffectTheNext(t *testing.T) {
	t.Parallel()
	message := AppendBatch(AppendBatch(nil, logBatch(oddLogs()...)), eventBatch(oddEvents()...))
	var r Reader
	r.Reset(message)
	if _, err := r.NextSection(); err != nil {
		t.Fatal(err)
	}
	s, err := r.NextSection()
	if err != nil || s.Kind != KindEvent || s.Rows != len(oddEvents()) {
		t.Fatalf("got %+v, %v", s, err)
	}
}

func TestTinyMessageCannotAllocateMuchMemory(t *testing.T) {
	block := []byte{0x80, 0x80, 0x80, 0x20, 0} // an S2 block that says 64 MiB
	message := section(KindLog, codecS2, append(header(1000, MaxSectionBytes), block...))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := readAll(message); err == nil {
		t.Error("no error")
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > MaxSectionBytes+1<<20 {
		t.Errorf("%d bytes allocated", grown)
	}
}

func TestReadingAllocatesNothingWhenWarm(t *testing.T) {
	message := AppendBatch(nil, logBatch(oddLogs()...))
	message = AppendBatch(message, eventBatch(oddEvents()...))
	var r Reader
	var l Log
	var e Event
	rows := 0
	read := func() {
		rows = 0
		r.Reset(message)
		for s, err := r.NextSection(); err == nil; s, err = r.NextSection() {
			for ok, _ := s.nextOfAnyKind(&l, &e); ok; ok, _ = s.nextOfAnyKind(&l, &e) {
				rows++
			}
		}
	}
	read()
	if allocs := testing.AllocsPerRun(100, read); allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
	if want := len(oddLogs()) + len(oddEvents()); rows != want {
		t.Errorf("%d rows, want %d", rows, want)
	}
}

// nextOfAnyKind reads a row of the section's kind.
func (s *Section) nextOfAnyKind(l *Log, e *Event) (bool, error) {
	if s.Kind == KindLog {
		return s.NextLog(l)
	}
	return s.NextEvent(e)
}
