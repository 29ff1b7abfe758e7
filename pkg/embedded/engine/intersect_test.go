package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// table makes a table's folder with parts, each made a second after the one
// before it.
func table(t *testing.T, parts ...string) (dataDir, folder string) {
	t.Helper()
	dataDir = t.TempDir()
	folder = filepath.Join(dataDir, "clickhouse", "store", "abc", "abcdef")
	for i, part := range parts {
		path := filepath.Join(folder, part)
		if err := os.MkdirAll(path, 0o750); err != nil {
			t.Fatal(err)
		}
		made := time.Now().Add(time.Duration(i-100) * time.Second)
		if err := os.Chtimes(path, made, made); err != nil {
			t.Fatal(err)
		}
	}
	return dataDir, folder
}

func TestOlderOfTwoPartsThatOverlapIsSetAside(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ parts, aside []string }{
		"side by side":         {[]string{"20261121_1_5_1", "20261121_6_9_1"}, nil},
		"one covers the other": {[]string{"20261121_2_3_1", "20261121_1_9_2"}, nil},
		"of two days":          {[]string{"20261120_1_5_1", "20261121_3_9_1"}, nil},
		"the rest of a merge":  {[]string{"20261121_1_5_1", "20261121_3_9_1", "20261121_3_4_1"}, []string{"20261121_1_5_1"}},
		"made later, mutated":  {[]string{"20261121_3_9_1_12", "20261121_1_5_1"}, []string{"20261121_3_9_1_12"}},
		"under a part that covers both": {
			[]string{"20261121_1_5_1", "20261121_3_9_1", "20261121_1_9_2"}, []string{"20261121_1_5_1"},
		},
		"no parts at all": {[]string{"tmp_insert_20261121_1_5_1", "tmp_merge_20261121_3_9_1", "detached"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dataDir, folder := table(t, c.parts...)
			aside, err := setClashingAside(dataDir)
			if err != nil || len(aside) != len(c.aside) {
				t.Fatalf("put aside: %q, %v", aside, err)
			}
			for _, part := range c.aside {
				if _, err := os.Stat(filepath.Join(folder, "detached", "broken-on-start_"+part)); err != nil {
					t.Error(err)
				}
			}
			if again, err := setClashingAside(dataDir); err != nil || len(again) != 0 {
				t.Errorf("put aside the next time: %q, %v", again, err)
			}
		})
	}
}

// A name beside the table that is taken already is no reason not to start.
func TestPartIsSetAsideUnderAnotherNameWhereItsOwnIsTaken(t *testing.T) {
	t.Parallel()
	dataDir, folder := table(t, "20261121_1_5_1", "20261121_3_9_1", "detached/broken-on-start_20261121_1_5_1")
	if aside, err := setClashingAside(dataDir); err != nil || len(aside) != 1 {
		t.Fatalf("put aside: %q, %v", aside, err)
	}
	entries, err := os.ReadDir(filepath.Join(folder, "detached"))
	if err != nil || len(entries) != 2 || entries[1].Name() != "broken-on-start_20261121_1_5_1_try1" {
		t.Errorf("beside the table: %v, %v", entries, err)
	}
}

func TestFolderWithoutDataHasNothingToSetAside(t *testing.T) {
	t.Parallel()
	if aside, err := setClashingAside(t.TempDir()); err != nil || len(aside) != 0 {
		t.Errorf("put aside: %q, %v", aside, err)
	}
}

// However parts overlap, none do in the end, and of those that overlap with no
// other none is touched.
func TestNoPartsOverlapInTheEnd(t *testing.T) {
	t.Parallel()
	var parts []onDisk
	for i := range 60 {
		first := uint64(i * 7 % 40)
		parts = append(parts, onDisk{
			name: fmt.Sprint(i), partition: fmt.Sprint(i % 2), first: first, last: first + uint64(i*5%11), made: time.Unix(int64(i*13%17), 0),
		})
	}
	alone := onDisk{name: "alone", partition: "0", first: 1000, last: 2000}
	aside := clashing(append(slices.Clone(parts), alone))
	left := slices.DeleteFunc(append(slices.Clone(parts), alone), func(p onDisk) bool { return slices.Contains(aside, p) })
	if older(left, nil) >= 0 || !slices.Contains(left, alone) || len(left)+len(aside) != len(parts)+1 {
		t.Errorf("%d parts are left, %d are put aside", len(left), len(aside))
	}
}
