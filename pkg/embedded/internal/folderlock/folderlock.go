// Package folderlock keeps a data folder for one process. Both embedded
// engines use it before they open their files.
package folderlock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// retryEvery is the pause between two attempts to lock a folder.
const retryEvery = 50 * time.Millisecond

// Lock is a locked folder. The kernel releases it when the process ends, so a
// killed process leaves nothing to clean up.
type Lock struct {
	file *os.File
	once sync.Once
}

// Acquire locks the folder by the file of this name in it. It retries for as
// long as wait says, because the process before may still be ending. The error
// names the folder and the process that holds it.
func Acquire(dir, name string, wait time.Duration) (*Lock, error) {
	path := filepath.Join(dir, name)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the data folder: %w", err)
	}
	for deadline := time.Now().Add(wait); ; time.Sleep(retryEvery) {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return &Lock{file: file}, writeOwner(file)
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			file.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		case !time.Now().Before(deadline):
			owner := readOwner(file)
			file.Close()
			return nil, fmt.Errorf("the data folder %s is in use by process %s: stop that process or name another folder", dir, owner)
		}
	}
}

// Release unlocks the folder. Closing the file alone would not be enough while
// a child process that is being started has a copy of it. The file stays,
// because removing it would race with the next owner.
func (l *Lock) Release() {
	l.once.Do(func() {
		_ = syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN) // closing the file does the same in the end
		l.file.Close()
	})
}

// writeOwner writes this process's number for the error of a process that
// finds the folder locked.
func writeOwner(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return fmt.Errorf("lock the data folder: %w", err)
	}
	if _, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		return fmt.Errorf("lock the data folder: %w", err)
	}
	return nil
}

func readOwner(file *os.File) string {
	number := make([]byte, 20)
	n, _ := file.ReadAt(number, 0) // shorter than the buffer, so always with io.EOF
	if n == 0 {
		return "unknown"
	}
	return strings.TrimSpace(string(number[:n]))
}
