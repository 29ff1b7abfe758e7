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

// partFolder matches the name of a part's folder: partition, first and last
// block, level, and the mutation if there was one.
var partFolder = regexp.MustCompile(`^([0-9A-Za-z]+)_([0-9]+)_([0-9]+)_[0-9]+(?:_[0-9]+)?$`)

// part is a part of a table, as its folder describes it.
type part struct {
	name, partition string
	first, last     uint64 // blocks
	created         time.Time
}

func (p part) covers(q part) bool { return p.first <= q.first && q.last <= p.last }

// overlaps reports whether two parts have some blocks in common while neither
// has all blocks of the other.
func (p part) overlaps(q part) bool {
	return p.partition == q.partition && p.first <= q.last && q.first <= p.last && !p.covers(q) && !q.covers(p)
}

// detachOverlapping moves parts aside that would keep ClickHouse from starting.
// A merge that failed, because the disk was full for example, can leave a part
// behind that could not be removed. Later merges go on without it, so it is the
// older one of two parts that overlap. detachOverlapping moves it to where
// ClickHouse moves parts that it cannot read, and returns the moved parts.
func detachOverlapping(dataDir string) ([]string, error) {
	tables, err := filepath.Glob(filepath.Join(dataDir, "clickhouse", "store", "*", "*"))
	if err != nil {
		return nil, fmt.Errorf("list the parts: %w", err)
	}
	var moved []string
	for _, table := range tables {
		parts, err := partsOf(table)
		if err != nil {
			return moved, err
		}
		for _, leftover := range leftovers(parts) {
			if err := detach(table, leftover.name); err != nil {
				return moved, err
			}
			moved = append(moved, filepath.Join(table, leftover.name))
		}
	}
	return moved, nil
}

func partsOf(table string) ([]part, error) {
	entries, err := os.ReadDir(table)
	if err != nil {
		return nil, fmt.Errorf("list the parts: %w", err)
	}
	var parts []part
	for _, entry := range entries {
		match := partFolder.FindStringSubmatch(entry.Name())
		if match == nil || !entry.IsDir() {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			return nil, fmt.Errorf("list the parts: %w", err)
		}
		first, errFirst := strconv.ParseUint(match[2], 10, 64)
		last, errLast := strconv.ParseUint(match[3], 10, 64)
		if errFirst == nil && errLast == nil {
			parts = append(parts, part{name: entry.Name(), partition: match[1], first: first, last: last, created: info.ModTime()})
		}
	}
	return parts, nil
}

// leftovers returns the parts to move aside so that none overlap any more. Parts
// that no other part covers are considered first, because a part that a good
// part covers is obsolete anyway.
func leftovers(parts []part) []part {
	var found []part
	for {
		at := older(parts, outermost(parts))
		if at < 0 {
			at = older(parts, nil)
		}
		if at < 0 {
			return found
		}
		found = append(found, parts[at])
		parts = append(parts[:at:at], parts[at+1:]...)
	}
}

// outermost marks the parts that no other part covers.
func outermost(parts []part) []bool {
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

// older returns the index of the older of the first two marked parts that
// overlap, or -1 if none do.
func older(parts []part, among []bool) int {
	for i, p := range parts {
		for j, q := range parts[:i] {
			switch {
			case among != nil && !(among[i] && among[j]), !p.overlaps(q):
			case p.created.Before(q.created):
				return i
			default:
				return j
			}
		}
	}
	return -1
}

// detach moves a part's folder. If the name is in use, it appends a number, as
// ClickHouse does.
func detach(table, name string) error {
	detached := filepath.Join(table, "detached")
	if err := os.MkdirAll(detached, 0o750); err != nil {
		return fmt.Errorf("move part %s aside: %w", name, err)
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
			return fmt.Errorf("move part %s aside: %w", name, err)
		}
		if err := os.Rename(filepath.Join(table, name), free); err != nil {
			return fmt.Errorf("move part %s aside: %w", name, err)
		}
		return nil
	}
}
