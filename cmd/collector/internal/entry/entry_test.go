package entry_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"testing"

	"github.com/logboom/logboom/cmd/collector/internal/dockertest"
	"github.com/logboom/logboom/cmd/collector/internal/entry"
)

func TestDecodeReadsTheEncodingOfDocker(t *testing.T) {
	t.Parallel()
	// One piece of a line as moby's encoder writes it: the length, then the
	// fields in the order of their numbers.
	frame, err := hex.DecodeString("00000022" + "0a067374646f7574" + "1001" + "1a026869" + "2001" + "2a10" + "0801" + "120a30313233343536373839" + "1802")
	if err != nil {
		t.Fatal(err)
	}
	n, err := entry.Length(frame)
	if err != nil || n != len(frame)-entry.HeaderSize {
		t.Fatalf("length %d, %v; the frame has %d", n, err, len(frame)-entry.HeaderSize)
	}
	var got entry.Entry
	if err := got.Decode(frame[entry.HeaderSize:]); err != nil {
		t.Fatal(err)
	}
	want := entry.Entry{Source: "stdout", Time: 1, Line: []byte("hi"), Partial: true, Last: true, ID: "0123456789", Ordinal: 2}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	if written := dockertest.AppendFrame(nil, &want); !bytes.Equal(written, frame) {
		t.Errorf("written %x, want %x", written, frame)
	}
}

func TestDecodeSkipsUnknownFields(t *testing.T) {
	t.Parallel()
	var got entry.Entry
	// Field 9, fixed64; field 10, bytes; field 3, the line.
	if err := got.Decode([]byte("\x49\x01\x02\x03\x04\x05\x06\x07\x08\x52\x01x\x1a\x02hi")); err != nil {
		t.Fatal(err)
	}
	if string(got.Line) != "hi" {
		t.Errorf("line %q", got.Line)
	}
}

func TestLengthRefusesImpossibleLengths(t *testing.T) {
	t.Parallel()
	for _, header := range []string{"\x00\x00\x00\x00", "\xff\xff\xff\xff", "\x00\x10\x00\x01", "{\"a\""} {
		if _, err := entry.Length([]byte(header)); !errors.Is(err, entry.ErrFrame) {
			t.Errorf("%x: %v, want ErrFrame", header, err)
		}
	}
	if n, err := entry.Length([]byte("\x00\x10\x00\x00")); err != nil || n != entry.MaxSize {
		t.Errorf("the largest: %d, %v", n, err)
	}
}

func TestDecodeRefusesBrokenMessages(t *testing.T) {
	t.Parallel()
	for _, message := range []string{"\x0a\x10short", "\xff", "\x10", "\x2a\x02\x0a\x05", "\x00\x01"} {
		if err := new(entry.Entry).Decode([]byte(message)); err == nil {
			t.Errorf("%x: no error", message)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(dockertest.AppendFrame(nil, &entry.Entry{Source: "stderr", Time: 5, Line: []byte("x"), Partial: true, ID: "a", Ordinal: 1})[entry.HeaderSize:])
	f.Add([]byte("\x2a\x02\x0a\x05"))
	f.Fuzz(func(t *testing.T, message []byte) {
		var first, second entry.Entry
		if first.Decode(message) != nil {
			return
		}
		if err := second.Decode(dockertest.AppendFrame(nil, &first)[entry.HeaderSize:]); err != nil {
			t.Fatal(err)
		}
		if len(first.Line) == 0 {
			first.Line, second.Line = nil, nil
		}
		if !reflect.DeepEqual(first, second) {
			t.Fatalf("%+v came back as %+v", first, second)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	frame := dockertest.AppendFrame(nil, &entry.Entry{Source: "stdout", Time: 1795253788929897000, Line: bytes.Repeat([]byte("x"), 100)})
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	var e entry.Entry
	for b.Loop() {
		if err := e.Decode(frame[entry.HeaderSize:]); err != nil {
			b.Fatal(err)
		}
	}
}
