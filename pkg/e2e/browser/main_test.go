package browser

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/logboom/logboom/pkg/embedded/engine"
	"github.com/logboom/logboom/pkg/freeport"
)

// patience limits how long a page or process may take on a busy machine. It says
// nothing about how long it usually takes.
const patience = 2 * time.Minute

// browserStarts is the number of attempts to start Chromium. An attempt fails if
// Chromium exits or does not answer before its first page.
const browserStarts = 3

func TestMain(m *testing.M) {
	engine.Main() // does not return in the engine's own process
	os.Exit(run(m))
}

func run(m *testing.M) int {
	code := m.Run()
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "browser tests:", err)
		return max(code, 1)
	}
	return code
}

// installation is a standalone process with the credentials that its welcome
// text showed, and a browser. It is a package-level variable because TestMain,
// which stops it, shares nothing else with the tests.
type installation struct {
	sync.Once
	err error

	pages, ingest   string // base URLs
	email, password string
	token, apiKey   string

	engine  *engine.Engine // standalone's ClickHouse, so that the tests can insert older usage into its tables
	command *exec.Cmd
	folder  string
	browser context.Context
	close   context.CancelFunc
}

var shared installation

// start returns the installation. The first call starts it.
func start(t *testing.T) *installation {
	t.Helper()
	shared.Do(func() { shared.err = shared.start() })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return &shared
}

func (i *installation) start() error {
	var err error
	if i.folder, err = os.MkdirTemp("", "logboom-browser-"); err != nil {
		return err
	}
	if i.engine, err = engine.Start(context.Background(), engine.Config{DataDir: filepath.Join(i.folder, "clickhouse"), Logger: slog.New(slog.DiscardHandler)}); err != nil {
		return err
	}
	if err := i.startStandalone(); err != nil {
		return err
	}
	return i.startBrowser()
}

func (i *installation) startStandalone() error {
	binary := filepath.Join(i.folder, "standalone")
	if out, err := exec.Command("go", "build", "-o", binary, "github.com/logboom/logboom/cmd/standalone").CombinedOutput(); err != nil {
		return fmt.Errorf("build standalone: %w: %s", err, out)
	}
	pages, err := freeport.Address()
	if err != nil {
		return err
	}
	ingest, err := freeport.Address() // not port 0: the pages show this address
	if err != nil {
		return err
	}
	i.pages, i.ingest = "http://"+pages, "http://"+ingest
	i.command = exec.Command(binary, "--data-dir="+filepath.Join(i.folder, "data"), "--admin-addr="+pages, "--ingest-addr="+ingest,
		"--ops-addr=127.0.0.1:0", "--stop-timeout=60s", "--clickhouse-url="+i.engine.URL(), "--stream-bytes=256MiB", "--log-level=warn")
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "LOGBOOM_") || strings.HasPrefix(pair, "LOGBOOM_CLICKHOUSE_ENGINE=") {
			i.command.Env = append(i.command.Env, pair)
		}
	}
	out, err := i.command.StdoutPipe()
	if err != nil {
		return err
	}
	i.command.Stderr = os.Stderr
	if err := i.command.Start(); err != nil {
		return err
	}
	return i.readWelcome(out)
}

// readWelcome reads the credentials from the text that standalone prints when it
// starts.
func (i *installation) readWelcome(out io.Reader) error {
	timer := time.AfterFunc(patience, func() { _ = i.command.Process.Kill() })
	defer timer.Stop()
	var text strings.Builder
	scanner := bufio.NewScanner(out)
	for scanner.Scan() {
		fmt.Fprintln(&text, scanner.Text())
		if strings.Contains(scanner.Text(), "Stop with Ctrl-C") {
			found := regexp.MustCompile(`token +(\S+)\s+API key +(\S+)\s+sign-in +(\S+) +(\S+)`).FindStringSubmatch(text.String())
			if found == nil {
				return fmt.Errorf("the welcome text has no token, API key and sign-in:\n%s", text.String())
			}
			i.token, i.apiKey, i.email, i.password = found[1], found[2], found[3], found[4]
			go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the process
			return nil
		}
	}
	return fmt.Errorf("standalone exited before its welcome text:\n%s", text.String())
}

func (i *installation) startBrowser() error {
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		return errors.New("the browser tests need Chromium: install Debian's chromium and fonts-dejavu-core")
	}
	var failed error
	for range browserStarts {
		err := i.tryBrowser(path)
		if err == nil {
			return nil
		}
		failed = errors.Join(failed, err)
	}
	return fmt.Errorf("start %s: %w", path, failed)
}

// tryBrowser starts a browser with one page. It limits the start with a timer
// and not with the context's deadline, which would also close a browser that has
// started.
func (i *installation) tryBrowser(path string) error {
	ctx, cancel := context.WithCancel(context.Background())
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU)
	allocator, _ := chromedp.NewExecAllocator(ctx, options...) // ends with ctx
	browser, end := chromedp.NewContext(allocator)
	timer := time.AfterFunc(patience, cancel)
	err := chromedp.Do(browser)
	if timer.Stop() && err == nil {
		i.browser, i.close = browser, func() { cancel(); end() }
		return nil
	}
	cancel()
	end() // waits until the browser's process has exited
	return cmp.Or(err, fmt.Errorf("not started within %s", patience))
}

// stop stops the browser, standalone and ClickHouse, and removes their files.
func (i *installation) stop() error {
	var failed error
	if i.close != nil {
		ctx, cancel := context.WithTimeout(i.browser, patience)
		_ = chromedp.Cancel(ctx) // closes the browser or kills it; no test depends on which
		cancel()
		i.close()
	}
	if i.command != nil && i.command.Process != nil {
		_ = i.command.Process.Signal(syscall.SIGTERM) // it may have exited already
		timer := time.AfterFunc(patience, func() { _ = i.command.Process.Kill() })
		if err := i.command.Wait(); err != nil {
			failed = errors.Join(failed, fmt.Errorf("standalone: %w", err))
		}
		timer.Stop()
	}
	if i.engine != nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		failed = errors.Join(failed, i.engine.Stop(ctx))
	}
	if i.folder != "" {
		failed = errors.Join(failed, os.RemoveAll(i.folder))
	}
	return failed
}
