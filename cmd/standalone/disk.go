package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/telemetry"
)

const (
	// diskEvery is the time between two measurements of the volume. Even at 1 GB/s
	// a volume of 20 GB or more is measured several times between fullFrom and full.
	diskEvery = 2 * time.Second
	// fullFrom is the share in use from which ingest refuses records, so that
	// merges, the ledger and the queue's own files do not reach a full disk.
	fullFrom = 0.85
	// roomBelow is the share in use below which ingest accepts records again. It
	// is lower than fullFrom, so that the answer does not alternate.
	roomBelow = 0.83
)

// disk watches the volume of the data folder.
type disk struct {
	dir     string
	log     *slog.Logger
	measure func(dir string) (embedded.Volume, error)

	used    atomic.Uint64         // thousandths
	full    atomic.Pointer[error] // why records are refused; nil: they are accepted
	unknown bool                  // the last measurement failed; used by update only
}

// newDisk measures the volume once, so that Full is correct from the start.
func newDisk(dir string, log *slog.Logger) *disk {
	d := &disk{dir: dir, log: log, measure: embedded.VolumeOf}
	d.update()
	return d
}

// Full returns an error while the volume is too full to accept records.
func (d *disk) Full() error {
	if full := d.full.Load(); full != nil {
		return *full
	}
	return nil
}

// run measures the volume regularly until ctx ends.
func (d *disk) run(ctx context.Context) error {
	ticker := time.NewTicker(diskEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			d.update()
		case <-ctx.Done():
			return nil
		}
	}
}

// update measures the volume and logs each change once. If the measurement
// fails, the last result stays.
func (d *disk) update() {
	volume, err := d.measure(d.dir)
	if err != nil {
		if !d.unknown {
			d.log.Warn("data volume not measured; the last result stays", "err", err)
		}
		d.unknown = true
		return
	}
	d.unknown = false
	used, was := volume.Used, d.full.Load() != nil
	d.used.Store(uint64(used * 1000))
	switch {
	case !was && used >= fullFrom:
		full := fmt.Errorf("the volume of the data folder is over %.0f %% full: free some space or enlarge the volume", fullFrom*100)
		d.full.Store(&full)
		d.log.Error("data volume became nearly full; records are refused", "dir", d.dir, "used_percent", used*100, "free_bytes", volume.Free)
	case was && used < roomBelow:
		d.full.Store(nil)
		d.log.Info("data volume has room again", "dir", d.dir, "used_percent", used*100, "free_bytes", volume.Free)
	}
}

// watchDisk adds two tasks to the process: one measures the data folder's volume,
// the other probes the queue on it. Both stop before the queue does.
func watchDisk(p *telemetry.Process, dir string, queue *embedded.NATS) *disk {
	d := newDisk(dir, p.Logger)
	p.Registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "logboom_standalone_volume_used_ratio", Help: "Share of the data folder's volume that is in use, 0 to 1; from 0.85 on records are refused."},
			func() float64 { return float64(d.used.Load()) / 1000 }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "logboom_standalone_volume_full", Help: "1 while records are refused because the volume is nearly full, else 0."}, d.fullGauge),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "logboom_standalone_queue_restarts_total", Help: "Restarts of the embedded queue after it was stuck."},
			func() float64 { return float64(queue.Restarts()) }),
	)
	p.Health.Add("data volume", func(context.Context) error { return d.Full() })
	p.Go("data volume", d.run)
	p.Go("canary of the queue", func(ctx context.Context) error {
		return queue.Watch(ctx, embedded.CanaryConfig{Room: d.Full, Logger: p.Logger})
	})
	return d
}

func (d *disk) fullGauge() float64 {
	if d.Full() != nil {
		return 1
	}
	return 0
}
