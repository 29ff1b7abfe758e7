package writer

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// broken is a ClickHouse that has put parts aside.
type broken struct {
	mu    sync.Mutex
	parts []string
}

func (b *broken) SetAside(context.Context) ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.parts, nil
}

func (b *broken) set(parts ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.parts = parts
}

func TestPartsThatAreSetAsideRaiseTheAlarmOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		tables := &broken{}
		w := &Writer{
			deps:    Deps{Logger: slog.New(slog.NewTextHandler(&out, nil)), Tables: tables},
			metrics: newMetrics(prometheus.NewRegistry()),
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*setAsideEvery)
		defer cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := w.watchSetAside(ctx); err != context.DeadlineExceeded {
				t.Errorf("ended with %v", err)
			}
		}()
		synctest.Wait()
		tables.set("logs/20260101_1_1_0", "usage/202601_2_2_0")
		<-done
		if got := testutil.ToFloat64(w.metrics.setAside); got != 2 {
			t.Errorf("the metric is %v", got)
		}
		if n := strings.Count(out.String(), "level=ERROR"); n != 1 || !strings.Contains(out.String(), "logs/20260101_1_1_0") {
			t.Errorf("%d alarms: %s", n, out.String())
		}
	})
}
