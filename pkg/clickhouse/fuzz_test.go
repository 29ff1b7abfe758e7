package clickhouse

import (
	"math"
	"testing"

	"github.com/logboom/logboom/pkg/record"
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

func FuzzParseCursor(f *testing.F) {
	f.Add("demo~1", "")
	f.Add("demo~1", "AAAA")
	f.Add("demo~1", cursor(record.KindLog, "demo~1", position{-1, RowID{1, 2, 3}}))
	f.Add("demo~1", "Af__________AQA\rAAAAAAAACAAAAA0eWdxQgfekn")
	f.Fuzz(func(t *testing.T, project, text string) {
		p, err := parseCursor(record.KindLog, project, text)
		if err != nil || text == "" {
			return
		}
		if again := cursor(record.KindLog, project, p); again != text {
			t.Errorf("%q was read as %v, which is %q", text, p, again)
		}
	})
}
