// Package enginetest runs a real ClickHouse for tests: one engine for each test
// binary, and a database of its own for each caller.
//
// A package that uses it needs
//
//	func TestMain(m *testing.M) { enginetest.Main(m) }
//
// because the engine is a child process of the same binary. Tests that check for
// leaked goroutines call [URL] first and ignore the goroutines that run then.
package enginetest

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/embedded/engine"
)

// timeout bounds a start and a stop of the engine on a machine that runs other
// tests at the same time.
const timeout = 5 * time.Minute

// shared is the engine of this test binary. It is package-level because
// TestMain, which ends it, and the tests, which start it, share nothing else.
var shared struct {
	sync.Mutex
	engine *engine.Engine
	folder string
	err    error // of the start, which is tried once
}

// Main runs the tests and stops the engine that they used.
func Main(m *testing.M) {
	engine.Main()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	code := m.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, "enginetest:", err)
		return max(code, 1)
	}
	return code
}

func stop() error {
	shared.Lock()
	defer shared.Unlock()
	if shared.engine == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	defer os.RemoveAll(shared.folder)
	return shared.engine.Stop(ctx)
}

// Engine returns the shared engine, which the first call starts. The test fails
// if the library is missing.
func Engine(t testing.TB) *engine.Engine {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.engine == nil && shared.err == nil {
		shared.err = start()
	}
	if shared.err != nil {
		t.Fatalf("ClickHouse did not start (run `make engine` to download its library): %v", shared.err)
	}
	return shared.engine
}

func start() (err error) {
	if shared.folder, err = os.MkdirTemp("", "logboom-engine-"); err != nil {
		return err
	}
	shared.engine, err = engine.Start(context.Background(), engine.Config{
		Library:      os.Getenv("LOGBOOM_CLICKHOUSE_ENGINE"),
		Digest:       os.Getenv("LOGBOOM_CLICKHOUSE_ENGINE_SHA256"),
		DataDir:      shared.folder,
		StartTimeout: timeout,
		Logger:       slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		os.RemoveAll(shared.folder)
	}
	return err
}

// URL creates an empty database, drops it when the test ends, and returns its
// address for clickhouse-go: http://default:<password>@127.0.0.1:<port>/<database>.
func URL(t testing.TB) string {
	t.Helper()
	base := Engine(t).URL()
	database := "t_" + strings.ToLower(rand.Text()[:12])
	execute(t, base, "CREATE DATABASE "+database)
	t.Cleanup(func() { execute(t, base, "DROP DATABASE IF EXISTS "+database+" SYNC") })
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + database
	return u.String()
}

// execute runs a statement by plain HTTP, because tests of the client must not
// depend on the client.
func execute(t testing.TB, address, sql string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/"
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // leaves no goroutine running
	response, err := client.Post(u.String(), "text/plain", strings.NewReader(sql))
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	defer response.Body.Close()
	if answer, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10)); response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", sql, answer)
	}
}
