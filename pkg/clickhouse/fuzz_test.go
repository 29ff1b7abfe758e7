package clickhouse

import (
	"testing"

	"github.com/logboom/logboom/pkg/record"
)

func FuzzParseCursor(f *testing.F) {
	f.Add("demo~1", "")
	f.Add("demo~1", "AAAA")
	f.Add("demo~1", cursor(record.KindLog, "demo~1", position{-1, record.RowID{Shard: 1, Seq: 2, Idx: 3}}))
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
