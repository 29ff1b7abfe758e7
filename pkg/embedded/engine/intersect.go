package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// partFolder is the folder of a part that is in use or was: partition, first
// and last block, level, and the mutation where there was one.
var partFolder = regexp.MustCompile(`^([0-9A-Za-z]+)_([0-9]+)_([0-9]+)_[0-9]+(?:_[0-9]+)?$`)

// onDisk is a part as its folder tells.
type onDisk struct {
	name, partition string
	first, last     uint64 // blocks
	made            time.Time
}

func (p onDisk) covers(q onDisk) bool { return p.first <= q.first && q.last <= p.last }

// clashes tells whether two parts have some blocks in common, and neither has
// all of the other's.
func (p onDisk) clashes(q onDisk) bool {
	return p.partition == q.partition && p.first <= q.last && q.first <= p.last && !p.covers(q) && !q.covers(p)
}

// setClashingAside puts parts aside that would keep ClickHouse from starting
// for good: of two that overlap in part, one is the rest of a merge that failed
// on the disk and could not be removed, which is the older one, for merges go
// on without it. It goes where ClickHouse puts parts that it cannot read, under
// the same name, and is looked after like those. It returns what was put aside.
func setClashingAside(dataDir string) ([]string, error) {
	tables, err := filepath.Glob(filepath.Join(dataDir, "clickhouse", "store", "*", "*"))
	if err != nil {
		return nil, fmt.Errorf("look for parts: %w", err)
	}
	var aside []string
	for _, table := range tables {
		parts, err := partsOf(table)
		if err != nil {
			return aside, err
		}
		for _, part := range clashing(parts) {
			if err := setAside(table, part.name); err != nil {
				return aside, err
			}
			aside = append(aside, filepath.Join(table, part.name))
		}
	}
	return aside, nil
}

func partsOf(table string) ([]onDisk, error) {
	entries, err := os.ReadDir(table)
	if err != nil {
		return nil, fmt.Errorf("look for parts: %w", err)
	}
	var parts []onDisk
	for _, entry := range entries {
		match := partFolder.FindStringSubmatch(entry.Name())
		if match == nil || !entry.IsDir() {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			return nil, fmt.Errorf("look for parts: %w", err)
		}
		first, errFirst := strconv.ParseUint(match[2], 10, 64)
		last, errLast := strconv.ParseUint(match[3], 10, 64)
		if errFirst == nil && errLast == nil {
			parts = append(parts, onDisk{name: entry.Name(), partition: match[1], first: first, last: last, made: info.ModTime()})
		}
	}
	return parts, nil
}

// clashing is the parts to put aside so that none clash any more. Those that
// no other covers come first: a part that a good one covers is of no use.
func clashing(parts []onDisk) []onDisk {
	var aside []onDisk
	for {
		at := older(parts, outermost(parts))
		if at < 0 {
			at = older(parts, nil)
		}
		if at < 0 {
			return aside
		}
		aside = append(aside, parts[at])
		parts = append(parts[:at:at], parts[at+1:]...)
	}
}

// outermost marks the parts that no other covers.
func outermost(parts []onDisk) []bool {
	outer := make([]bool, len(parts))
	for i, p := range parts {
		outer[i] = true
		for j, q := range parts {
			if i != j && p.partition == q.partition && q.covers(p) && !p.covers(q) {
				outer[i] = false
			}
		}
	}
	return outer
}

// older is the older part of the first two that clash, among those marked; -1
// where none do.
func older(parts []onDisk, among []bool) int {
	for i, p := range parts {
		for j, q := range parts[:i] {
			switch {
			case among != nil && !(among[i] && among[j]), !p.clashes(q):
			case p.made.Before(q.made):
				return i
			default:
				return j
			}
		}
	}
	return -1
}

// setAside moves a part's folder. A name that is taken gets a number, as
// ClickHouse does it.
func setAside(table, name string) error {
	detached := filepath.Join(table, "detached")
	if err := os.MkdirAll(detached, 0o750); err != nil {
		return fmt.Errorf("put part %s aside: %w", name, err)
	}
	to := filepath.Join(detached, "broken-on-start_"+name)
	for try := 0; ; try++ {
		free := to
		if try > 0 {
			free = fmt.Sprintf("%s_try%d", to, try)
		}
		_, err := os.Lstat(free)
		if err == nil {
			continue
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("put part %s aside: %w", name, err)
		}
		if err := os.Rename(filepath.Join(table, name), free); err != nil {
			return fmt.Errorf("put part %s aside: %w", name, err)
		}
		return nil
	}
}
