//go:build linux

package main

import (
	"testing"

	"pgregory.net/rapid"
)

func TestTextOfARecordReadsBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := identity{rapid.IntRange(0, 300).Draw(t, "sender"), rapid.IntRange(0, 1<<40).Draw(t, "number")}
		text := string(id.appendText(nil))
		if got, whole := parseText(text); got != id || !whole {
			t.Fatalf("%q reads as %v, whole %v", text, got, whole)
		}
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		damaged := text[:at] + string(text[at]^1) + text[at+1:]
		if got, whole := parseText(damaged); whole && got == id {
			t.Fatalf("%q passes for %v", damaged, id)
		}
		if _, whole := parseText(text[:at]); whole {
			t.Fatalf("%q passes for whole", text[:at])
		}
	})
}

func FuzzParseText(f *testing.F) {
	for _, seed := range []string{"", "/", "1/2", "-1/2 x 00000000", string(identity{3, 4}.appendText(nil))} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if id, whole := parseText(text); whole && string(id.appendText(nil)) != text {
			t.Errorf("%q passes for %v", text, id)
		}
	})
}
