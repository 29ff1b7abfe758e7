package record

import (
	"math"
	"reflect"
	"testing"
)

func oddDrops() []Drop {
	return []Drop{
		{Time: 1_700_000_000_000_000_000, Reason: "rate", Records: 1, Bytes: 0},
		{Time: 1_700_000_000_000_000_000, Reason: "daily_records", Records: 1000, Bytes: 150_000},
		{Time: 1_600_000_000_000_000_001, Reason: "", Records: math.MaxUint64, Bytes: math.MaxUint64},
	}
}

func TestDropsSurviveARoundTripBesideOtherSections(t *testing.T) {
	t.Parallel()
	message := AppendBatch(AppendBatch(AppendBatch(nil, logBatch(oddLogs()...)), dropBatch(oddDrops()...)), eventBatch(oddEvents()...))
	got, err := readAll(message)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.drops, oddDrops()) || len(got.logs) != len(oddLogs()) || len(got.events) != len(oddEvents()) {
		t.Fatalf("got %+v", got)
	}
}

func TestCutDropIsCorrupt(t *testing.T) {
	t.Parallel()
	whole := AppendBatch(nil, dropBatch(oddDrops()[:1]...))[prefixBytes:]
	for cut := 1; cut < len(whole); cut++ {
		if _, err := readAll(section(KindDrop, codecNone, whole[:cut])); err == nil {
			t.Errorf("cut at byte %d of %d: no error", cut, len(whole))
		}
	}
}
