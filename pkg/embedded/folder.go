package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// folderLock holds a data folder for one server. The kernel drops it with the
// process, so a kill leaves nothing to clean up.
type folderLock struct {
	file *os.File
	once sync.Once
}

func lockFolder(dir string) (*folderLock, error) {
	path := filepath.Join(dir, "queue.lock")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return &folderLock{file: file}, nil
	}
	file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("data folder %q is in use by another server: stop that one or give another folder", dir)
	}
	return nil, fmt.Errorf("data folder %q: lock: %w", dir, err)
}

// release lets the folder go. Closing the file alone would not while a process
// that is just being started has a copy of it. The file stays, because removing
// it would race with the next owner.
func (l *folderLock) release() {
	l.once.Do(func() {
		_ = syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN) // closing it does the same in the end
		l.file.Close()
	})
}
