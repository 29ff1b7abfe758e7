package embedded

import (
	"fmt"
	"syscall"
)

// Volume is the size of a file system and what is free of it.
type Volume struct {
	Total int64 // bytes
	Free  int64 // bytes that a process without root's rights can use
	// Used is the share in use, from 0 to 1, as df shows it: the blocks that are
	// reserved for root count neither as used nor as free. If a larger share of
	// the inodes is in use, Used is that share.
	Used float64
}

// VolumeOf measures the file system that holds a folder.
func VolumeOf(dir string) (Volume, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return Volume{}, fmt.Errorf("capacity of the volume of %q: %w", dir, err)
	}
	block := int64(stat.Bsize)
	return Volume{
		Total: int64(stat.Blocks) * block,
		Free:  int64(stat.Bavail) * block,
		Used:  max(share(stat.Blocks-stat.Bfree, stat.Bavail), share(stat.Files-stat.Ffree, stat.Ffree)),
	}, nil
}

// share is used / (used + free), or 0 if the file system counts neither.
func share(used, free uint64) float64 {
	if used+free == 0 {
		return 0
	}
	return float64(used) / float64(used+free)
}
