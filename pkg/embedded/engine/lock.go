package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// lockFolder takes the data folder for this process, until the process ends.
// It waits for another engine to let go, because the one before may still be
// ending.
func lockFolder(dir string, timeout time.Duration) (*os.File, error) {
	path := filepath.Join(dir, "engine.lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the data folder: %w", err)
	}
	for deadline := time.Now().Add(timeout); ; time.Sleep(50 * time.Millisecond) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return f, writeOwner(f)
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		case time.Now().After(deadline):
			owner := readOwner(f)
			f.Close()
			return nil, fmt.Errorf("the data folder %s is in use by another engine (process %s): stop that one or name another folder", dir, owner)
		}
	}
}

// writeOwner leaves the process's number for whoever finds the folder locked.
func writeOwner(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("lock the data folder: %w", err)
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		return fmt.Errorf("lock the data folder: %w", err)
	}
	return nil
}

func readOwner(f *os.File) string {
	number := make([]byte, 20)
	n, _ := f.ReadAt(number, 0) // shorter than the buffer, so always with io.EOF
	if n == 0 {
		return "unknown"
	}
	return strings.TrimSpace(string(number[:n]))
}
