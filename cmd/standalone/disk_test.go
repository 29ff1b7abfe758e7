package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/telemetry"
)

func TestDiskIsFullFrom85PercentAndLogsEachChangeOnce(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	d := newDisk(t.TempDir(), slog.New(slog.DiscardHandler))
	d.log = slog.New(slog.NewTextHandler(&out, nil))
	for i, step := range []struct {
		used   float64
		err    error
		full   bool
		logged string
	}{
		{used: 0.5},
		{used: 0.8499},
		{used: 0.85, full: true, logged: "nearly full"},
		{used: 0.99, full: true},
		{err: errors.New("gone"), full: true, logged: "not measured"},
		{err: errors.New("gone"), full: true},
		{used: 0.84, full: true},
		{used: 0.82, logged: "room again"},
		{err: errors.New("gone"), logged: "not measured"},
		{used: 0.2},
	} {
		out.Reset()
		d.measure = func(string) (embedded.Volume, error) { return embedded.Volume{Used: step.used}, step.err }
		d.update()
		if err := d.Full(); (err != nil) != step.full {
			t.Errorf("step %d: Full returned %v, want full %v", i, err, step.full)
		}
		if lines := out.String(); !strings.Contains(lines, step.logged) || step.logged == "" && lines != "" {
			t.Errorf("step %d logged %q, want %q", i, lines, step.logged)
		}
	}
}

func TestWatchDiskRegistersItsMetricsAndStopsBeforeTheQueue(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cfg := telemetry.Config{Name: "standalone", OpsAddr: "127.0.0.1:0", StopTimeout: time.Minute}
	code := telemetry.Run(ctx, cfg, slog.New(slog.NewTextHandler(io.Discard, nil)), func(ctx context.Context, p *telemetry.Process) error {
		defer cancel()
		dir := t.TempDir()
		queue, err := embedded.StartNATS(ctx, embedded.NATSConfig{DataDir: dir})
		if err != nil {
			return err
		}
		p.OnStop("embedded nats", queue.Stop)
		watchDisk(p, dir, queue)
		families, err := p.Registry.Gather()
		if err != nil {
			return err
		}
		found := map[string]float64{}
		for _, family := range families {
			metric := family.GetMetric()[0]
			found[family.GetName()] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
		}
		used, ok := found["logboom_standalone_volume_used_ratio"]
		if !ok || used <= 0 || used > 1 {
			t.Errorf("logboom_standalone_volume_used_ratio is %v, registered %v, want a value in (0, 1]", used, ok)
		}
		for _, name := range []string{"logboom_standalone_volume_full", "logboom_standalone_queue_restarts_total"} {
			if _, ok := found[name]; !ok {
				t.Errorf("the metric %s is not registered", name)
			}
		}
		return nil
	})
	if code != 0 {
		t.Errorf("the process exited with code %d, want 0", code)
	}
}
