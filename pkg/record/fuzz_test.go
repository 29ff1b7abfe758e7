package record

import (
	"encoding/binary"
	"reflect"
	"testing"
)

// rowsFrom makes logs and events from a fuzzer's bytes. Rows often repeat the texts
// of the previous row.
func rowsFrom(seed []byte) (logs []Log, events []Event) {
	next := func() string {
		if len(seed) == 0 {
			return ""
		}
		n := min(int(seed[0]%24), len(seed)-1)
		text := string(seed[1 : 1+n])
		seed = seed[1+n:]
		return text
	}
	number := func() int64 {
		var b [8]byte
		copy(b[:], next())
		return int64(binary.LittleEndian.Uint64(b[:]))
	}
	pairs := func() []Pair {
		var p []Pair
		for range len(next()) % 5 {
			p = append(p, Pair{next(), next()})
		}
		return p
	}
	for len(seed) > 0 {
		logs = append(logs, Log{Timestamp: number(), Application: next(), SeverityNumber: uint8(number()),
			Severity: next(), Data: next(), Metadata: pairs(), Host: next(), Source: next()})
		events = append(events, Event{Timestamp: number(), Channel: next(), Title: next(), Description: next(),
			Icon: next(), Notify: number()&1 == 1, Tags: pairs()})
	}
	return logs, events
}

func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("\x03abc\x08\x00\x00\x00\x00\x00\x00\x00\x01\x02hi\x05hello\x04pair\x01k\x01v\x01k\x01v"))
	f.Add(make([]byte, 200))
	f.Fuzz(func(t *testing.T, seed []byte) {
		logs, events := rowsFrom(seed)
		got, err := readAll(AppendBatch(AppendBatch(nil, logBatch(logs...)), eventBatch(events...)))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got.logs, logs) || !reflect.DeepEqual(got.events, events) {
			t.Fatalf("got %+v %+v, want %+v %+v", got.logs, got.events, logs, events)
		}
	})
}

func FuzzReader(f *testing.F) {
	f.Add(AppendBatch(nil, logBatch(oddLogs()...)))
	f.Add(AppendBatch(nil, eventBatch(oddEvents()...)))
	f.Fuzz(func(t *testing.T, message []byte) {
		_, _ = readAll(message)
	})
}

// FuzzSection reads bodies with a valid checksum, so that the fuzzer gets past the
// check.
func FuzzSection(f *testing.F) {
	f.Add(byte(KindLog), byte(codecNone), AppendBatch(nil, logBatch(oddLogs()[:5]...))[prefixBytes:])
	f.Add(byte(KindLog), byte(codecS2), AppendBatch(nil, logBatch(oddLogs()...))[prefixBytes:])
	f.Add(byte(KindDrop), byte(codecNone), AppendBatch(nil, dropBatch(oddDrops()...))[prefixBytes:])
	f.Add(byte(KindEvent), byte(codecNone), AppendBatch(nil, eventBatch(oddEvents()...))[prefixBytes:])
	f.Fuzz(func(t *testing.T, kind, codec byte, body []byte) {
		_, _ = readAll(section(Kind(kind), codec, body))
	})
}
