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

// patience bounds what a page or process may take on a busy machine; it is no
// claim about how long it takes.
const patience = 2 * time.Minute

// browserStarts is how often Chromium may end, or say nothing, before its first
// page is there.
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

// installation is a standalone with what its welcome showed, and a browser in
// front of it. It is package-level, for TestMain that ends it and the tests
// that use it share nothing else.
type installation struct {
	sync.Once
	err error

	pages, ingest   string // addresses, with scheme
	email, password string
	token, apiKey   string

	engine  *engine.Engine // of standalone, so that the tests can put a past into its tables
	command *exec.Cmd
	folder  string
	browser context.Context
	close   context.CancelFunc
}

var shared installation

// start gives the installation, started by whoever comes first.
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
	ingest, err := freeport.Address() // the pages have to name it, so that it cannot be chosen as late as by port 0
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

// readWelcome takes what a new user is shown.
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
				return fmt.Errorf("the welcome shows no token, key and sign-in:\n%s", text.String())
			}
			i.token, i.apiKey, i.email, i.password = found[1], found[2], found[3], found[4]
			go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the process
			return nil
		}
	}
	return fmt.Errorf("standalone ended before its welcome:\n%s", text.String())
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

// tryBrowser starts a browser with a page. A deadline of its context would end
// the browser too, however well it had started: so a timer cancels it.
func (i *installation) tryBrowser(path string) error {
	ctx, cancel := context.WithCancel(context.Background())
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU)
	allocator, _ := chromedp.NewExecAllocator(ctx, options...) // ends with ctx
	browser, end := chromedp.NewContext(allocator)
	late := time.AfterFunc(patience, cancel)
	err := chromedp.Do(browser)
	if late.Stop() && err == nil {
		i.browser, i.close = browser, func() { cancel(); end() }
		return nil
	}
	cancel()
	end() // waits until its process is gone
	return cmp.Or(err, errors.New("it took too long"))
}

// stop ends the browser and the standalone, and removes what they left.
func (i *installation) stop() error {
	var failed error
	if i.close != nil {
		ctx, cancel := context.WithTimeout(i.browser, patience)
		_ = chromedp.Cancel(ctx) // closes it and waits, or kills it: nothing is tested by how it ends
		cancel()
		i.close()
	}
	if i.command != nil && i.command.Process != nil {
		_ = i.command.Process.Signal(syscall.SIGTERM) // it may have ended already
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
