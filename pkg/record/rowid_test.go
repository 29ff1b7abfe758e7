package record

import (
	"math"
	"testing"
)

func FuzzParseRowID(f *testing.F) {
	for _, seed := range []string{"", "0-0-0", "255-18446744073709551615-4294967295", "256-0-0", "+1-1-1", "01-1-1", "1-1", "1-1-1-1", "1--1", "-1-1-1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := ParseRowID(text)
		if err == nil && id.String() != text {
			t.Errorf("%q was read as %s", text, id)
		}
	})
}

func TestRowIDsAreReadBack(t *testing.T) {
	t.Parallel()
	for _, id := range []RowID{{}, {1, 2, 3}, {math.MaxUint8, math.MaxUint64, math.MaxUint32}} {
		got, err := ParseRowID(id.String())
		if err != nil || got != id {
			t.Errorf("%s was read as %v, %v", id, got, err)
		}
	}
}
