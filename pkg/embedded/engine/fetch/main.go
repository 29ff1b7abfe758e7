// Command fetch downloads the ClickHouse library of the embedded engine into the
// cache folder and prints its path. `make engine` calls it.
//
// It downloads with npm, so that npm's configuration of registry, proxies and
// credentials applies. The archive and the library must have the digests that
// are compiled in.
package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/logboom/logboom/pkg/embedded/engine"
)

const alternative = "or set LOGBOOM_CLICKHOUSE_URL to a ClickHouse server, or LOGBOOM_CLICKHOUSE_ENGINE to the path of your own libchdb"

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "fetch the engine:", err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	if os.Getenv("LOGBOOM_CLICKHOUSE_URL") != "" {
		_, err := fmt.Fprintln(out, "LOGBOOM_CLICKHOUSE_URL is set: the embedded engine is not needed")
		return err
	}
	release, err := engine.CurrentRelease()
	if err != nil {
		return err
	}
	dir, err := engine.CacheDir()
	if err != nil {
		return err
	}
	library := filepath.Join(dir, release.File)
	if engine.Verify(library, release.Digest) != nil {
		if err := fetch(release, dir, library); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(out, library)
	return err
}

// fetch downloads the archive, checks it, unpacks the library, checks it and
// moves it into place. No unchecked file ever has the library's name.
func fetch(release engine.Release, dir, library string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(dir, "fetch-") // beside the target, for the rename
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	archive, err := download(release, work)
	if err != nil {
		return err
	}
	if err := checkIntegrity(archive, release.Integrity); err != nil {
		return err
	}
	unpacked := filepath.Join(work, release.File)
	if err := unpack(archive, "package/"+release.File, unpacked); err != nil {
		return err
	}
	if err := engine.Verify(unpacked, release.Digest); err != nil {
		return err
	}
	return os.Rename(unpacked, library)
}

// download downloads the archive, about 178 MB, with npm and returns its path.
func download(release engine.Release, work string) (string, error) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", fmt.Errorf("npm is not installed: install Node.js with npm, %s", alternative)
	}
	pack := exec.Command(npm, "pack", "--silent", release.Package+"@"+engine.Version)
	pack.Dir = work
	pack.Stderr = os.Stderr
	if err := pack.Run(); err != nil {
		return "", fmt.Errorf("npm pack %s@%s failed (%w): check the network and npm's settings, %s", release.Package, engine.Version, err, alternative)
	}
	archives, err := filepath.Glob(filepath.Join(work, "*.tgz"))
	if err != nil || len(archives) != 1 {
		return "", errors.New("npm pack wrote no archive: update npm, " + alternative)
	}
	return archives[0], nil
}

// checkIntegrity compares the archive's digest with npm's integrity value.
func checkIntegrity(archive, want string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha512.New()
	if _, err := io.Copy(sum, f); err != nil {
		return err
	}
	if got := "sha512-" + base64.StdEncoding.EncodeToString(sum.Sum(nil)); got != want {
		return fmt.Errorf("the downloaded archive has integrity %s, expected %s: it is not the pinned release and was not used", got, want)
	}
	return nil
}

// unpack extracts one file from the archive.
func unpack(archive, name, to string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("unpack %s: %w", archive, err)
	}
	files := tar.NewReader(unzipped)
	for {
		header, err := files.Next()
		if err != nil {
			return fmt.Errorf("unpack %s: no %s in it: %w", archive, name, err)
		}
		if header.Name == name {
			return write(to, files)
		}
	}
}

func write(to string, from io.Reader) error {
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, from); err != nil {
		f.Close()
		return fmt.Errorf("unpack %s: %w", to, err)
	}
	return f.Close()
}
