package embedded

import (
	"fmt"
	"syscall"
)

// Volume is how large a file system is and what is left of it.
type Volume struct {
	Total int64 // bytes
	Free  int64 // bytes that are left to whoever is not root
	// Used is the share in use, from 0 to 1, as df shows it: what is kept back
	// for root counts neither as used nor as free. It is that of the inodes
	// where these run out first.
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

// share is what is used of both together; 0 where a file system does not count.
func share(used, free uint64) float64 {
	if used+free == 0 {
		return 0
	}
	return float64(used) / float64(used+free)
}
