package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ErrNoLibrary is returned if the library's file does not exist.
var ErrNoLibrary = errors.New("the ClickHouse library is missing: run `make engine`, or set LOGBOOM_CLICKHOUSE_URL to a ClickHouse server, or LOGBOOM_CLICKHOUSE_ENGINE to the library's path")

// CacheDir is the cache folder of this release. It lies outside the source tree.
func CacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder: %w", err)
	}
	return filepath.Join(base, "logboom", "libchdb-"+Version), nil
}

// Locate returns the absolute path of the library: the given path or, if that is
// empty, the file in the cache folder. It returns ErrNoLibrary if the file does
// not exist. It does not read the file; [Verify] does.
func Locate(path string) (string, error) {
	if path == "" {
		release, err := CurrentRelease()
		if err != nil {
			return "", err
		}
		dir, err := CacheDir()
		if err != nil {
			return "", err
		}
		path = filepath.Join(dir, release.File)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%s: %w", path, ErrNoLibrary)
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a file: %w", path, ErrNoLibrary)
	}
	return filepath.Abs(path)
}

// Verify reads the whole library and compares its SHA-256 with the digest in
// hexadecimal or, if that is empty, with the pinned digest of this platform.
func Verify(path, digest string) error {
	if digest == "" {
		release, err := CurrentRelease()
		if err != nil {
			return err
		}
		digest = release.Digest
	}
	got, err := digestOf(path)
	if err != nil {
		return err
	}
	if !strings.EqualFold(got, digest) {
		return fmt.Errorf("%s: its SHA-256 is %s, expected %s: the file is damaged or is another release; delete it and run `make engine`, or set the digest of your own library", path, got, digest)
	}
	return nil
}

func digestOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.CopyBuffer(struct{ io.Writer }{sum}, f, make([]byte, 1<<20)); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
