package entry_test

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/logboom/logboom/cmd/collector/internal/dockertest"
	"github.com/logboom/logboom/cmd/collector/internal/entry"
)

func whole(source, text string) *entry.Entry { return &entry.Entry{Source: source, Line: []byte(text)} }

func piece(source, id string, ordinal int32, last bool, text string) *entry.Entry {
	return &entry.Entry{Source: source, Line: []byte(text), Partial: true, ID: id, Ordinal: ordinal, Last: last}
}

// join adds entries and returns the emitted lines as text. With end it closes
// the joiner afterwards.
func join(j *entry.Joiner, end bool, entries ...*entry.Entry) []string {
	var lines []string
	emit := func(l entry.Line) { lines = append(lines, format(l)) }
	for _, e := range entries {
		j.Add(e, dockertest.AppendFrame(nil, e), emit)
	}
	if end {
		j.Close(emit)
	}
	return lines
}

func format(l entry.Line) string {
	text := l.Source + ":" + string(l.Text)
	if l.Part != nil {
		text += fmt.Sprintf(" [%s %d %t]", l.Part.ID, l.Part.Ordinal, l.Part.Last)
	}
	return text
}

func TestJoinerJoinsPieces(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		entries []*entry.Entry
		want    []string
	}{
		"whole lines":   {[]*entry.Entry{whole("stdout", "a"), whole("stderr", ""), whole("stdout", "b")}, []string{"stdout:a", "stderr:", "stdout:b"}},
		"three pieces":  {[]*entry.Entry{piece("stdout", "x", 1, false, "a"), piece("stdout", "x", 2, false, "b"), piece("stdout", "x", 3, true, "c")}, []string{"stdout:abc"}},
		"mixed sources": {[]*entry.Entry{piece("stdout", "x", 1, false, "a"), piece("stderr", "y", 1, false, "1"), whole("stdout", "n"), piece("stderr", "y", 2, true, "2")}, []string{"stdout:a [x 1 false]", "stdout:n", "stderr:12"}},
		"stderr beside": {[]*entry.Entry{piece("stdout", "x", 1, false, "a"), whole("stderr", "e"), piece("stdout", "x", 2, true, "b")}, []string{"stderr:e", "stdout:ab"}},
		"no newline":    {[]*entry.Entry{piece("stdout", "x", 1, false, "a"), piece("stdout", "x", 2, false, "b")}, []string{"stdout:ab"}},
		"without ids":   {[]*entry.Entry{piece("stdout", "", 0, false, "a"), piece("stdout", "", 0, false, "b"), whole("stdout", "c")}, []string{"stdout:ab [ 1 false]", "stdout:c"}},
		"one follows":   {[]*entry.Entry{piece("stdout", "x", 1, false, "a"), piece("stdout", "y", 1, true, "b")}, []string{"stdout:a [x 1 false]", "stdout:b"}},
		"no beginning":  {[]*entry.Entry{piece("stdout", "x", 4, true, "d")}, []string{"stdout:d [x 4 true]"}},
		"odd sources":   {[]*entry.Entry{piece("a", "", 1, false, "1"), piece("b", "", 1, false, "2"), piece("c", "", 1, false, "3"), piece("d", "", 1, false, "4"), piece("e", "", 1, false, "5")}, []string{"a:1 [ 1 false]", "b:2", "c:3", "d:4", "e:5"}},
	} {
		if got := join(new(entry.Joiner), true, c.entries...); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestJoinerCutsAndMarksALineWithoutEnd(t *testing.T) {
	t.Parallel()
	const size, pieces = 16 << 10, 150
	var entries []*entry.Entry
	for i := range pieces {
		entries = append(entries, piece("stdout", "x", int32(i+1), i == pieces-1, strings.Repeat(string(rune('a'+i%26)), size)))
	}
	var text []byte
	var parts []entry.Part
	var j entry.Joiner
	for _, e := range entries {
		j.Add(e, nil, func(l entry.Line) { text, parts = append(text, l.Text...), append(parts, *l.Part) })
	}
	const each = entry.MaxLine / size
	want := []entry.Part{{"x", 1, false}, {"x", each + 1, false}, {"x", 2*each + 1, true}}
	if !reflect.DeepEqual(parts, want) {
		t.Errorf("parts %+v, want %+v", parts, want)
	}
	if len(text) != size*pieces {
		t.Errorf("%d bytes, want %d", len(text), size*pieces)
	}
}

// Entries may be split anywhere: a joiner that continues with the open frames
// of the first part emits the same lines as one joiner for all entries.
func TestOpenFramesContinueInAnotherJoiner(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var entries []*entry.Entry
		for i := range rapid.IntRange(1, 30).Draw(t, "entries") {
			source := rapid.SampledFrom([]string{"stdout", "stderr"}).Draw(t, "source")
			if rapid.Bool().Draw(t, "whole") {
				entries = append(entries, whole(source, fmt.Sprint(i)))
				continue
			}
			id := rapid.SampledFrom([]string{"x", "y", ""}).Draw(t, "id")
			entries = append(entries, piece(source, id, int32(rapid.IntRange(0, 3).Draw(t, "ordinal")), rapid.Bool().Draw(t, "last"), fmt.Sprint(i)))
		}
		cut := rapid.IntRange(0, len(entries)).Draw(t, "cut")
		want := join(new(entry.Joiner), true, entries...)
		var before, after entry.Joiner
		got := join(&before, false, entries[:cut]...)
		got = append(got, join(&after, false, decode(t, before.OpenFrames())...)...)
		if !bytes.Equal(before.OpenFrames(), after.OpenFrames()) {
			t.Fatal("the second joiner does not hold the same open lines")
		}
		got = append(got, join(&after, true, entries[cut:]...)...)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("cut at %d: %q, want %q", cut, got, want)
		}
	})
}

func decode(t *rapid.T, frames []byte) (entries []*entry.Entry) {
	for len(frames) > 0 {
		n, err := entry.Length(frames)
		if err != nil {
			t.Fatal(err)
		}
		e := new(entry.Entry)
		if err := e.Decode(frames[entry.HeaderSize : entry.HeaderSize+n]); err != nil {
			t.Fatal(err)
		}
		entries, frames = append(entries, e), frames[entry.HeaderSize+n:]
	}
	return entries
}
