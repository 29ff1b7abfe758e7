//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// The kernel's EXT4_IOC_SHUTDOWN, _IOR('X', 125, __u32) in fs/ext4, with the flag
// EXT4_GOING_FLAGS_NOLOGFLUSH: stop without writing the journal.
const (
	ext4Shutdown     = 2<<30 | 4<<16 | 'X'<<8 | 125
	ext4NoJournalOut = uint32(2)
)

// unmountWithin bounds the wait until the last killed process has closed its files.
const unmountWithin = 2 * time.Minute

// volume is an ext4 file system in a file, mounted through a loop device: a disk
// that can lose its power or be full.
type volume struct {
	image, folder string
}

// makeVolume creates the file system and mounts it. The image is sparse: it uses
// only what is written.
func makeVolume(ctx context.Context, parent, name string, bytes int64) (*volume, error) {
	v := &volume{image: filepath.Join(parent, name+".ext4"), folder: filepath.Join(parent, name)}
	if err := os.MkdirAll(v.folder, 0o755); err != nil {
		return nil, fmt.Errorf("volume %s: %w", name, err)
	}
	file, err := os.Create(v.image)
	if err == nil {
		err = errors.Join(file.Truncate(bytes), file.Close())
	}
	if err == nil {
		err = command(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", v.image)
	}
	if err == nil {
		err = v.mount(ctx)
	}
	if err == nil {
		err = v.prove(ctx)
	}
	for again := 1; again < proofs && errors.Is(err, errSurvived); again++ {
		err = v.prove(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("volume %s: %w", name, err)
	}
	return v, nil
}

// errSurvived means that a power loss lost nothing. The kernel may have written
// everything just before, by itself or for another program, so it counts only if it
// happens each time.
var errSurvived = errors.New("data that was not synced is there after a power loss: the power cannot be cut here")

const proofs = 3

// prove cuts the power once before anything depends on it: what was synced must be
// there afterwards, and what was not synced must be lost. Otherwise a power loss on
// this machine would test nothing.
func (v *volume) prove(ctx context.Context) error {
	synced, volatile := filepath.Join(v.folder, "synced"), filepath.Join(v.folder, "volatile")
	if err := os.WriteFile(synced, []byte("here"), 0o600); err != nil {
		return err
	}
	if err := errors.Join(syncPath(synced), syncPath(v.folder)); err != nil {
		return err
	}
	if err := os.WriteFile(volatile, []byte("gone"), 0o600); err != nil {
		return err
	}
	if err := errors.Join(v.cutPower(), v.unmount(ctx), v.mount(ctx)); err != nil {
		return err
	}
	kept, err := os.ReadFile(synced)
	if err != nil {
		return fmt.Errorf("what was synced is not there after a power loss: %w", err)
	}
	if string(kept) != "here" {
		return fmt.Errorf("what was synced reads %q after a power loss", kept)
	}
	if kept, err = os.ReadFile(volatile); err == nil && string(kept) == "gone" {
		return errSurvived
	}
	return nil
}

func syncPath(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

func (v *volume) mount(ctx context.Context) error {
	return command(ctx, "mount", "-o", "loop", v.image, v.folder)
}

// unmount retries until no process uses the file system.
func (v *volume) unmount(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, unmountWithin)
	defer cancel()
	for {
		err := command(ctx, "umount", v.folder)
		if err == nil {
			return nil
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("%s is still in use: %w", v.folder, err)
		}
	}
}

// cutPower stops the file system: what was not synced is lost.
func (v *volume) cutPower() error {
	folder, err := os.Open(v.folder)
	if err != nil {
		return fmt.Errorf("cut the power: %w", err)
	}
	defer folder.Close()
	flags := ext4NoJournalOut
	if err := ioctl(folder.Fd(), ext4Shutdown, &flags); err != nil {
		return fmt.Errorf("cut the power of %s: %w", v.folder, err)
	}
	return nil
}

// fill uses all room but a little, in a file; the function it returns frees it.
func (v *volume) fill(leave int64) (free func() error, err error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(v.folder, &stat); err != nil {
		return nil, fmt.Errorf("fill %s: %w", v.folder, err)
	}
	path := filepath.Join(v.folder, "filler")
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("fill %s: %w", v.folder, err)
	}
	defer file.Close()
	room := int64(stat.Bavail)*stat.Bsize - leave
	if room <= 0 {
		return nil, fmt.Errorf("fill %s: it is full already: %w", v.folder, errNoEffect)
	}
	if err := syscall.Fallocate(int(file.Fd()), 0, 0, room); err != nil {
		return nil, errors.Join(fmt.Errorf("fill %s: %w", v.folder, err), os.Remove(path))
	}
	return func() error { return os.Remove(path) }, nil
}

// checkVolumes returns what this machine lacks for volumes.
func checkVolumes() error {
	if os.Geteuid() != 0 {
		return errors.New("mounting a disk of its own needs root")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return fmt.Errorf("no loop devices: %w", err)
	}
	return needs("mkfs.ext4", "mount", "umount")
}

// needs returns an error if a program is missing.
func needs(programs ...string) error {
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("the program %s is missing: install it, or leave this fault out with -faults", program)
		}
	}
	return nil
}

// command runs a program; its error has the program's output.
func command(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
