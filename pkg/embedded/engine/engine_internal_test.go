package engine

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/embedded/internal/folderlock"
)

func TestChildExitsWhenItsControlPipeIsClosed(t *testing.T) {
	t.Parallel()
	config, err := Config{DataDir: t.TempDir(), StartTimeout: 5 * time.Minute, Logger: slog.New(slog.DiscardHandler)}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	e, err := listen(config)
	if err != nil {
		t.Fatal(err)
	}
	defer e.socket.Close()
	c, err := e.spawn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	c.control.Close() // on every system, the pipe is closed when the parent exits
	<-c.exited
	if c.err != nil {
		t.Errorf("the child exited with an error: %v", c.err)
	}
}

func TestDamagedLibraryIsRefusedBeforeItIsLoaded(t *testing.T) {
	t.Parallel()
	library := filepath.Join(t.TempDir(), "libchdb.so")
	if err := os.WriteFile(library, []byte("a custom library"), 0o600); err != nil {
		t.Fatal(err)
	}
	digest, err := digestOf(library)
	if err != nil {
		t.Fatal(err)
	}
	if err := Verify(library, strings.ToUpper(digest)); err != nil {
		t.Errorf("the library was refused with its right digest: %v", err)
	}
	if err := Verify(library, ""); err == nil {
		t.Error("a library that is not the pinned release was accepted without a digest")
	}
	if err := os.WriteFile(library, []byte("a custom librarz"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Start(context.Background(), Config{DataDir: t.TempDir(), Library: library, Digest: digest, Logger: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "SHA-256") {
		t.Errorf("start with a changed library: error %v, want one about SHA-256", err)
	}
}

func TestFileThatIsNotALibraryIsNamedInTheError(t *testing.T) {
	t.Parallel()
	library := filepath.Join(t.TempDir(), "libchdb.so")
	if err := os.WriteFile(library, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	digest, err := digestOf(library)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Start(context.Background(), Config{DataDir: t.TempDir(), Library: library, Digest: digest, Logger: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "load "+library) {
		t.Errorf("error is %v, want one with %q", err, "load "+library)
	}
}

func TestErrorOfAMissingLibrarySaysHowToDownloadIt(t *testing.T) {
	t.Parallel()
	_, err := Locate(filepath.Join(t.TempDir(), "libchdb.so"))
	if !errors.Is(err, ErrNoLibrary) || !strings.Contains(err.Error(), "make engine") {
		t.Errorf("error is %v, want ErrNoLibrary with \"make engine\"", err)
	}
	if _, err := Locate(t.TempDir()); !errors.Is(err, ErrNoLibrary) {
		t.Errorf("locate a folder: error %v, want ErrNoLibrary", err)
	}
}

func TestErrorNamesAPlatformWithoutARelease(t *testing.T) {
	t.Parallel()
	if _, err := releaseFor("plan9", "mips"); err == nil || !strings.Contains(err.Error(), "plan9/mips") {
		t.Errorf("error is %v, want one with \"plan9/mips\"", err)
	}
}

func TestStartNamesTheInvalidField(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	locked := t.TempDir() // the engine would wait for this folder for longer than StartTimeout
	lock, err := folderlock.Acquire(locked, "engine.lock", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	for want, config := range map[string]Config{
		"data folder: none given":     {},
		`address "0.0.0.0:0"`:         {DataDir: t.TempDir(), Addr: "0.0.0.0:0"},
		`address "127.0.0.1"`:         {DataDir: t.TempDir(), Addr: "127.0.0.1"},
		"data folder: mkdir " + file:  {DataDir: filepath.Join(file, "x")},
		"no answer within 1ns":        {DataDir: locked, LockTimeout: time.Hour, StartTimeout: time.Nanosecond},
		"the ClickHouse library is m": {DataDir: t.TempDir(), Library: filepath.Join(t.TempDir(), "x")},
	} {
		if config.Logger == nil {
			config.Logger = slog.New(slog.DiscardHandler)
		}
		if _, err := Start(context.Background(), config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want one with %q", err, want)
		}
	}
}

func TestChildThatDidNotCallMainStartsNoEngine(t *testing.T) {
	t.Setenv(childMode, "1")
	if _, err := Start(context.Background(), Config{DataDir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "engine.Main") {
		t.Errorf("error is %v, want one with \"engine.Main\"", err)
	}
}

func TestDataIsReadableByItsOwnerOnly(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new")
	config := Config{DataDir: dir}
	if err := config.makeDataDir(); err != nil {
		t.Fatal(err)
	}
	if _, err := engineArgs(spec{DataDir: dir, Threads: 2}); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v, want access for its owner only", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestPathsAreEscapedInTheConfiguration(t *testing.T) {
	t.Parallel()
	if text := serverXML(spec{DataDir: "/a&b"}, "/a<b"); strings.Contains(text, "a&b") || strings.Contains(text, "a<b") {
		t.Errorf("a path is not escaped: %s", text)
	}
}

func TestOutputIsLoggedByLineAndLimited(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	l := &lines{child: &child{}, logger: slog.New(slog.NewTextHandler(&log, nil))}
	for _, part := range []string{"one", " line\nsecond\n", "0. ? @ 0x01\n", strings.Repeat("x", 3*maxLine)} {
		if _, err := l.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{`line="one line"`, "line=second"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in %s", want, log.String())
		}
	}
	if strings.Contains(log.String(), "0x01") || log.Len() > 2*maxLine || len(l.rest) > maxLine {
		t.Errorf("%d bytes logged, %d bytes buffered, or the line of a stack trace was logged", log.Len(), len(l.rest))
	}
}
