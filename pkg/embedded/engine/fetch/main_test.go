package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/logboom/logboom/pkg/embedded/engine"
)

// archive writes an npm archive with one file and returns its path.
func archive(t *testing.T, name, content string) string {
	t.Helper()
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	files := tar.NewWriter(zipped)
	if err := files.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	if _, err := files.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.tgz")
	if err := os.WriteFile(path, packed.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// withNPM replaces the npm command with a script.
func withNPM(t *testing.T, script string) {
	t.Helper()
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "npm"), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":/usr/bin:/bin")
}

func release(t *testing.T) engine.Release {
	t.Helper()
	r, err := engine.CurrentRelease()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestLibraryIsUnpacked(t *testing.T) {
	t.Parallel()
	to := filepath.Join(t.TempDir(), "lib")
	if err := unpack(archive(t, "package/libchdb.so", "content"), "package/libchdb.so", to); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(to); err != nil || string(got) != "content" {
		t.Errorf("the unpacked file contains %q, error %v, want \"content\"", got, err)
	}
	if err := unpack(archive(t, "package/other", "x"), "package/libchdb.so", to+"2"); err == nil {
		t.Error("an archive without the library was accepted")
	}
}

func TestOtherArchiveIsRefusedAndLeavesNoFiles(t *testing.T) {
	r := release(t)
	withNPM(t, "cp "+archive(t, "package/"+r.File, "not the library")+" ./pack.tgz")
	dir := t.TempDir()
	err := fetch(r, dir, filepath.Join(dir, r.File))
	if err == nil || !strings.Contains(err.Error(), "not the pinned release") {
		t.Errorf("error is %v, want one with \"not the pinned release\"", err)
	}
	requireEmpty(t, dir)
}

func TestOtherLibraryInAnArchiveWithTheRightIntegrityIsRefused(t *testing.T) {
	r := release(t)
	path := archive(t, "package/"+r.File, "not the library")
	r.Integrity = integrityOf(t, path)
	withNPM(t, "cp "+path+" ./pack.tgz")
	dir := t.TempDir()
	if err := fetch(r, dir, filepath.Join(dir, r.File)); err == nil || !strings.Contains(err.Error(), "SHA-256") {
		t.Errorf("error is %v, want one with \"SHA-256\"", err)
	}
	requireEmpty(t, dir)
}

// integrityOf returns the integrity of an archive. It reads it from the error
// that checkIntegrity returns for a wrong one.
func integrityOf(t *testing.T, path string) string {
	t.Helper()
	_, after, _ := strings.Cut(checkIntegrity(path, "").Error(), "has integrity ")
	integrity, _, _ := strings.Cut(after, ",")
	return integrity
}

func requireEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("files left in the folder: %v, error %v", left, err)
	}
}

func TestDownloadErrorsNameTheAlternatives(t *testing.T) {
	for name, prepare := range map[string]func(){
		"no npm":     func() { t.Setenv("PATH", t.TempDir()) },
		"npm fails":  func() { withNPM(t, "exit 1") },
		"no archive": func() { withNPM(t, "exit 0") },
	} {
		prepare()
		_, err := download(release(t), t.TempDir())
		if err == nil || !strings.Contains(err.Error(), "LOGBOOM_CLICKHOUSE_URL") || !strings.Contains(err.Error(), "LOGBOOM_CLICKHOUSE_ENGINE") {
			t.Errorf("%s: error is %v, want one that names both settings", name, err)
		}
	}
}

func TestExternalClickHouseNeedsNoLibrary(t *testing.T) {
	t.Setenv("LOGBOOM_CLICKHOUSE_URL", "http://127.0.0.1:8123")
	t.Setenv("PATH", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	var out bytes.Buffer
	if err := run(&out); err != nil || !strings.Contains(out.String(), "not needed") {
		t.Errorf("output %q, error %v, want \"not needed\"", out.String(), err)
	}
}
