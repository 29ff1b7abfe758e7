package writer

import (
	"fmt"
	"maps"
	"slices"
)

// cover is what is to be found of one partition of an intent.
type cover struct {
	want     uint64 // rows that were sent
	lasting  uint64 // of these, rows whose retention has not passed: they must be there
	answered bool   // ClickHouse has said ok under the token in use
}

// finding is what a count means.
type finding struct {
	missing []string // partitions that have nothing, sorted; none: all is there
	burnt   bool     // all that is missing was answered ok: the token is logged, the rows are not there
	wrong   string   // what must not be, with the reason's code in code
	code    string
}

// judge compares what ClickHouse has with what was intended. It is the whole
// decision of resolving; what follows from it is in settlement.
func judge(want map[string]cover, have map[string]uint64) finding {
	f := finding{burnt: true}
	for _, partition := range slices.Sorted(maps.Keys(have)) {
		if n := have[partition]; n > want[partition].want {
			return finding{code: stopOverfull, wrong: fmt.Sprintf("partition %s holds %d rows where %d are wanted", partition, n, want[partition].want)}
		}
	}
	for _, partition := range slices.Sorted(maps.Keys(want)) {
		w, n := want[partition], have[partition]
		switch {
		case n >= w.lasting: // none, where the retention of all has passed
		case n > 0:
			return finding{code: stopPartFilled, wrong: fmt.Sprintf("partition %s holds %d of %d rows: a part of an insert was stored", partition, n, w.want)}
		default:
			f.missing = append(f.missing, partition)
			f.burnt = f.burnt && w.answered
		}
	}
	f.burnt = f.burnt && len(f.missing) > 0
	return f
}
