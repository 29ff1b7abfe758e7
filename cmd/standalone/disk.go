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
	// diskEvery is how often the volume is measured: at 1 GB/s, what is left
	// from fullFrom on still lasts for several looks on any volume over 20 GB.
	diskEvery = 2 * time.Second
	// The queue takes at most 70 % of the volume and ClickHouse the rest;
	// from here on nothing more is taken in, so that merges, the ledger and
	// the queue's own files never meet a full disk.
	fullFrom = 0.85
	// roomBelow is lower, so that the answer does not flap.
	roomBelow = 0.83
)

// disk watches the volume of the data folder.
type disk struct {
	dir     string
	log     *slog.Logger
	measure func(dir string) (embedded.Volume, error)

	used    atomic.Uint64         // thousandths
	full    atomic.Pointer[error] // why there is no room; nil: there is
	unknown bool                  // the last look failed; only look's caller touches it
}

// newDisk looks once, so that Room is right from the start.
func newDisk(dir string, log *slog.Logger) *disk {
	d := &disk{dir: dir, log: log, measure: embedded.VolumeOf}
	d.look()
	return d
}

// Room is why nothing more may be taken in, or nil.
func (d *disk) Room() error {
	if full := d.full.Load(); full != nil {
		return *full
	}
	return nil
}

// run looks until ctx ends.
func (d *disk) run(ctx context.Context) error {
	ticker := time.NewTicker(diskEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			d.look()
		case <-ctx.Done():
			return nil
		}
	}
}

// look measures the volume and logs a change, once each way. While it cannot
// be measured the last answer stands.
func (d *disk) look() {
	volume, err := d.measure(d.dir)
	if err != nil {
		if !d.unknown {
			d.log.Warn("data volume not measured; the last answer stands", "err", err)
		}
		d.unknown = true
		return
	}
	d.unknown = false
	used, was := volume.Used, d.full.Load() != nil
	d.used.Store(uint64(used * 1000))
	switch {
	case !was && used >= fullFrom:
		full := fmt.Errorf("the volume of the data folder is over %.0f %% full: free some space or give it more", fullFrom*100)
		d.full.Store(&full)
		d.log.Error("data volume is nearly full; nothing is taken in", "dir", d.dir, "used_percent", used*100, "free_bytes", volume.Free)
	case was && used < roomBelow:
		d.full.Store(nil)
		d.log.Info("data volume has room again", "dir", d.dir, "used_percent", used*100, "free_bytes", volume.Free)
	}
}

// watchDisk adds the watch of the data folder's volume and of the queue on it
// to the process. Both stop before the queue does.
func watchDisk(p *telemetry.Process, dir string, queue *embedded.NATS) *disk {
	d := newDisk(dir, p.Logger)
	p.Registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "logboom_standalone_volume_used_ratio", Help: "Share of the data folder's volume that is in use, 0 to 1; from 0.85 on nothing is taken in."},
			func() float64 { return float64(d.used.Load()) / 1000 }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "logboom_standalone_volume_full", Help: "1 while nothing is taken in for want of room, 0 otherwise."}, d.fullGauge),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "logboom_standalone_queue_restarts_total", Help: "Restarts of the embedded queue after it was stuck."},
			func() float64 { return float64(queue.Restarts()) }),
	)
	p.Health.Add("data volume", func(context.Context) error { return d.Room() })
	p.Go("data volume", d.run)
	p.Go("canary of the queue", func(ctx context.Context) error {
		return queue.Watch(ctx, embedded.CanaryConfig{Room: d.Room, Logger: p.Logger})
	})
	return d
}

func (d *disk) fullGauge() float64 {
	if d.Room() != nil {
		return 1
	}
	return 0
}
