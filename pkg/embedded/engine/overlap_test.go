package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// table creates a table's folder with parts, each one second newer than the one
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
		created := time.Now().Add(time.Duration(i-100) * time.Second)
		if err := os.Chtimes(path, created, created); err != nil {
			t.Fatal(err)
		}
	}
	return dataDir, folder
}

func TestOlderOfTwoOverlappingPartsIsDetached(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ parts, moved []string }{
		"side by side":           {[]string{"20261121_1_5_1", "20261121_6_9_1"}, nil},
		"one covers the other":   {[]string{"20261121_2_3_1", "20261121_1_9_2"}, nil},
		"different days":         {[]string{"20261120_1_5_1", "20261121_3_9_1"}, nil},
		"left by a failed merge": {[]string{"20261121_1_5_1", "20261121_3_9_1", "20261121_3_4_1"}, []string{"20261121_1_5_1"}},
		"newer, mutated":         {[]string{"20261121_3_9_1_12", "20261121_1_5_1"}, []string{"20261121_3_9_1_12"}},
		"under a part that covers both": {
			[]string{"20261121_1_5_1", "20261121_3_9_1", "20261121_1_9_2"}, []string{"20261121_1_5_1"},
		},
		"no parts at all": {[]string{"tmp_insert_20261121_1_5_1", "tmp_merge_20261121_3_9_1", "detached"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dataDir, folder := table(t, c.parts...)
			moved, err := detachOverlapping(dataDir)
			if err != nil || len(moved) != len(c.moved) {
				t.Fatalf("detached %q, error %v, want %q", moved, err, c.moved)
			}
			for _, part := range c.moved {
				if _, err := os.Stat(filepath.Join(folder, "detached", "broken-on-start_"+part)); err != nil {
					t.Error(err)
				}
			}
			if again, err := detachOverlapping(dataDir); err != nil || len(again) != 0 {
				t.Errorf("detached by a second call: %q, error %v", again, err)
			}
		})
	}
}

func TestPartIsDetachedUnderAnotherNameIfItsNameIsInUse(t *testing.T) {
	t.Parallel()
	dataDir, folder := table(t, "20261121_1_5_1", "20261121_3_9_1", "detached/broken-on-start_20261121_1_5_1")
	if moved, err := detachOverlapping(dataDir); err != nil || len(moved) != 1 {
		t.Fatalf("detached %q, error %v, want one part", moved, err)
	}
	entries, err := os.ReadDir(filepath.Join(folder, "detached"))
	if err != nil || len(entries) != 2 || entries[1].Name() != "broken-on-start_20261121_1_5_1_try1" {
		t.Errorf("detached parts: %v, error %v", entries, err)
	}
}

func TestFolderWithoutDataHasNoPartsToDetach(t *testing.T) {
	t.Parallel()
	if moved, err := detachOverlapping(t.TempDir()); err != nil || len(moved) != 0 {
		t.Errorf("detached %q, error %v, want none", moved, err)
	}
}

func TestOnlyOverlappingPartsAreDetached(t *testing.T) {
	t.Parallel()
	var parts []part
	for i := range 60 {
		first := uint64(i * 7 % 40)
		parts = append(parts, part{
			name: fmt.Sprint(i), partition: fmt.Sprint(i % 2), first: first, last: first + uint64(i*5%11), created: time.Unix(int64(i*13%17), 0),
		})
	}
	alone := part{name: "alone", partition: "0", first: 1000, last: 2000}
	moved := leftovers(append(slices.Clone(parts), alone))
	left := slices.DeleteFunc(append(slices.Clone(parts), alone), func(p part) bool { return slices.Contains(moved, p) })
	if older(left, nil) >= 0 || !slices.Contains(left, alone) || len(left)+len(moved) != len(parts)+1 {
		t.Errorf("%d parts are left and %d detached: parts still overlap, or another part was detached", len(left), len(moved))
	}
}
