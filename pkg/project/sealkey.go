package project

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// maxKeyFile bounds what is read of a key file: the key takes 45 bytes.
const maxKeyFile = 1 << 10

// LoadOrCreateKey gives the key in the file, in the form of StoreConfig.Key,
// and makes the file with a random key where there is none: readable by its
// owner only, whole or not at all, and by one of several processes that start
// at once. Whoever loses the file loses what was sealed with the key.
func LoadOrCreateKey(path string) (Secret, error) {
	key, err := loadKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := createKey(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return Secret{}, fmt.Errorf("make key file: %w", err)
	}
	return loadKey(path)
}

func loadKey(path string) (Secret, error) {
	file, err := os.Open(path)
	if err != nil {
		return Secret{}, fmt.Errorf("key file: %w", err)
	}
	defer func() { _ = file.Close() }() // nothing was written
	info, err := file.Stat()
	if err != nil {
		return Secret{}, fmt.Errorf("key file: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return Secret{}, fmt.Errorf("key file %s: others than its owner may read it: chmod 600 it", path)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxKeyFile))
	if err != nil {
		return Secret{}, fmt.Errorf("key file: %w", err)
	}
	key := NewSecret(string(text))
	if _, _, err := openKey(key); err != nil {
		return Secret{}, fmt.Errorf("key file %s: %w", path, err)
	}
	return key, nil
}

// createKey writes a file beside the path and links it there, which fails where
// another process was faster.
func createKey(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(dir, filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // what stays behind is a key that nobody uses
	if err := fillKey(file); err != nil {
		return err
	}
	if err := os.Link(file.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

func fillKey(file *os.File) error {
	var key [keyBytes]byte
	_, _ = rand.Read(key[:]) // never fails: crypto/rand stops the process instead
	_, err := file.WriteString(base64.StdEncoding.EncodeToString(key[:]) + "\n")
	return errors.Join(err, file.Sync(), file.Close())
}

// syncDir makes the file's name outlast a power loss, as its contents do: what
// is sealed with the key would be lost with it.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
