package telemetry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/logboom/logboom/pkg/freeport"
	"github.com/logboom/logboom/pkg/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func config() Config {
	return Config{Name: "test", OpsAddr: "127.0.0.1:0", StopTimeout: time.Minute}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestStepsAreStoppedInReverseOrder(t *testing.T) {
	t.Parallel()
	var order []string
	ctx, cancel := context.WithCancel(t.Context())
	code := Run(ctx, config(), quiet(), func(_ context.Context, p *Process) error {
		for _, name := range []string{"connection", "publisher", "server"} {
			p.OnStop(name, func(context.Context) error {
				order = append(order, name)
				return nil
			})
		}
		cancel()
		return nil
	})
	if code != 0 || !slices.Equal(order, []string{"server", "publisher", "connection"}) {
		t.Fatalf("code %d, order %v", code, order)
	}
}

func TestFailingPartStopsTheProcess(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{"error": errors.New("disk on fire"), "nil": nil} {
		stopped := false
		var out bytes.Buffer
		code := Run(t.Context(), config(), slog.New(slog.NewTextHandler(&out, nil)), func(_ context.Context, p *Process) error {
			p.OnStop("connection", func(context.Context) error { stopped = true; return nil })
			p.Go("steady", untilDone)
			p.Go("consumer", func(context.Context) error { return failure })
			return nil
		})
		if code != 1 || !stopped {
			t.Fatalf("%s: code %d, stopped %t", name, code, stopped)
		}
		if !strings.Contains(out.String(), "consumer: ") {
			t.Fatalf("%s: the log does not name the part: %s", name, out.String())
		}
	}
}

func TestFailedComposeStopsWhatWasStarted(t *testing.T) {
	t.Parallel()
	stopped := false
	code := Run(t.Context(), config(), quiet(), func(_ context.Context, p *Process) error {
		p.OnStop("connection", func(context.Context) error { stopped = true; return nil })
		return errors.New("no queue")
	})
	if code != 1 || !stopped {
		t.Fatalf("code %d, stopped %t", code, stopped)
	}
}

func TestStopBeforeReadyIsClean(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	code := Run(ctx, config(), quiet(), func(ctx context.Context, _ *Process) error {
		cancel()
		return ctx.Err()
	})
	if code != 0 {
		t.Fatalf("code %d", code)
	}
}

func TestHangingStepDoesNotDelayTheStopForever(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.StopTimeout = 20 * time.Millisecond
	release := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	code := Run(ctx, cfg, quiet(), func(_ context.Context, p *Process) error {
		p.Go("deaf", func(context.Context) error { <-release; return nil })
		cancel()
		return nil
	})
	close(release)
	if code != 1 {
		t.Fatalf("code %d", code)
	}
}

func TestScrapeInProgressDoesNotFailTheStop(t *testing.T) {
	t.Parallel()
	cfg := config()
	var err error
	if cfg.OpsAddr, err = freeport.Address(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	release, answered := make(chan struct{}), make(chan error, 1) // one: there is one request
	code := Run(ctx, cfg, quiet(), func(_ context.Context, p *Process) error {
		p.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "endless"}, func() float64 {
			cancel()
			<-release
			return 0
		}))
		go func() {
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			answer, err := client.Get("http://" + cfg.OpsAddr + "/metrics")
			if err == nil {
				err = answer.Body.Close()
			}
			answered <- err
		}()
		return nil
	})
	close(release)
	if err := <-answered; err == nil || code != 0 {
		t.Errorf("code %d, and the scrape ended with %v", code, err)
	}
}

func TestBusyOperationsPortIsNamed(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	cfg := config()
	cfg.OpsAddr = taken.Addr().String()
	var out bytes.Buffer
	if code := Run(t.Context(), cfg, slog.New(slog.NewTextHandler(&out, nil)), nil); code != 1 {
		t.Fatalf("code %d", code)
	}
	if !strings.Contains(out.String(), cfg.OpsAddr) {
		t.Fatalf("the log does not name the address: %s", out.String())
	}
}

func TestReadinessFollowsItsChecks(t *testing.T) {
	t.Parallel()
	var broken error
	h := &Health{}
	h.Add("queue", func(context.Context) error { return broken })
	ask := func(path string) (int, string) {
		answer := httptest.NewRecorder()
		opsHandler(h, newRegistry()).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.Code, string(body)
	}
	if code, body := ask("/readyz"); code != 200 || !strings.Contains(body, `"queue":"ok"`) {
		t.Fatalf("ready: %d %s", code, body)
	}
	broken = errors.New("nobody answers")
	if code, body := ask("/readyz"); code != 503 || !strings.Contains(body, "nobody answers") {
		t.Fatalf("broken: %d %s", code, body)
	}
	broken = nil
	h.Drain()
	if code, body := ask("/readyz"); code != 503 || !strings.Contains(body, "draining") {
		t.Fatalf("draining: %d %s", code, body)
	}
	if code, _ := ask("/livez"); code != 200 {
		t.Fatalf("live: %d", code)
	}
	if code, body := ask("/metrics"); code != 200 || !strings.Contains(body, "go_goroutines") {
		t.Fatalf("metrics: %d %.100s", code, body)
	}
}

func TestLogLevelAndFormat(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	logger, err := NewLogger(&out, "warn", "auto")
	if err != nil {
		t.Fatal(err)
	}
	logger.Info("quiet")
	logger.Warn("heard")
	if !strings.HasPrefix(out.String(), "{") || strings.Contains(out.String(), "quiet") || !strings.Contains(out.String(), "heard") {
		t.Fatalf("log is %s", out.String())
	}
	if _, err := NewLogger(&out, "loud", "text"); err == nil || !strings.Contains(err.Error(), "loud") {
		t.Fatalf("error %v does not name the level", err)
	}
}
