package engine

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// Config configures the embedded engine.
type Config struct {
	// Library is the path of libchdb. Default: the file that `make engine` has
	// downloaded into the cache folder.
	Library string
	// Digest is the SHA-256 of Library in hexadecimal. It is needed only if
	// Library is not the pinned release. Default: the digest of that release.
	Digest string
	// DataDir is the folder of the data. It is created if it is missing and is
	// locked while the engine runs. Required.
	DataDir string
	// Addr is the address to listen on. It must be a loopback address, because
	// the connection is not encrypted. Default 127.0.0.1:0, a free port.
	Addr string
	// Password of the user `default`. Default: random for each run.
	Password string
	// MemoryLimit bounds the engine's memory in bytes. A query that would
	// exceed it fails. Default: half of the machine's memory.
	MemoryLimit int64
	// Threads is how many threads a query may use. Default: one per core, at
	// most 4.
	Threads int
	// Statements is how many statements run at once; 64 more wait up to 10 s.
	// Default 8.
	Statements int
	// MaxBodyBytes bounds the body of a request, both compressed and
	// decompressed. Default 1 GiB.
	MaxBodyBytes int64
	// StartTimeout bounds one start of the child, including the check of the
	// library. Default 60 s.
	StartTimeout time.Duration
	// LockTimeout is how long a start waits until another engine releases the
	// data folder. Default 5 s: a child whose parent was killed ends sooner.
	LockTimeout time.Duration
	// DrainTimeout is how long Stop waits for running statements before it
	// kills the queries among them. Default 20 s.
	DrainTimeout time.Duration
	// Logger receives the engine's log lines. Default slog.Default().
	Logger *slog.Logger
}

// withDefaults returns the configuration with defaults filled in, or an error
// that names the first invalid field.
func (c Config) withDefaults() (Config, error) {
	if c.DataDir == "" {
		return c, errors.New("data folder: none given: name a folder for the engine's data")
	}
	var err error
	if c.DataDir, err = filepath.Abs(c.DataDir); err != nil { // the library needs an absolute path
		return c, fmt.Errorf("data folder: %w", err)
	}
	if c.Library, err = Locate(c.Library); err != nil {
		return c, err
	}
	setDefault(&c.Addr, "127.0.0.1:0")
	setDefault(&c.Password, rand.Text())
	setDefault(&c.Threads, min(runtime.NumCPU(), 4))
	setDefault(&c.StartTimeout, 60*time.Second)
	setDefault(&c.LockTimeout, 5*time.Second)
	setDefault(&c.DrainTimeout, 20*time.Second)
	setDefault(&c.Logger, slog.Default())
	return c, requireLoopback(c.Addr)
}

func setDefault[T comparable](value *T, otherwise T) {
	var zero T
	if *value == zero {
		*value = otherwise
	}
}

func requireLoopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("address %q: %w", addr, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("address %q: the embedded engine listens on loopback only, such as 127.0.0.1:0", addr)
	}
	return nil
}

// spec is the part of Config that the parent sends to the child. It is sent
// through a pipe, because other users can read the arguments and the environment
// of a process.
type spec struct {
	Library      string
	Digest       string
	DataDir      string
	Password     string
	MemoryLimit  int64
	Threads      int
	Statements   int
	MaxBodyBytes int64
	LockTimeout  time.Duration
	DrainTimeout time.Duration
}

func (c Config) spec() spec {
	return spec{
		Library: c.Library, Digest: c.Digest, DataDir: c.DataDir, Password: c.Password,
		MemoryLimit: c.MemoryLimit, Threads: c.Threads,
		Statements: c.Statements, MaxBodyBytes: c.MaxBodyBytes,
		LockTimeout: c.LockTimeout, DrainTimeout: c.DrainTimeout,
	}
}

// makeDataDir creates the folder; only its owner can read it.
func (c Config) makeDataDir() error {
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	return nil
}
