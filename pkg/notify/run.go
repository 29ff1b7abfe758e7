package notify

import (
	"context"
	"errors"
	"log/slog"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/logboom/logboom/pkg/kv"
	"github.com/logboom/logboom/pkg/lease"
	"github.com/logboom/logboom/pkg/ledger"
)

// watchUnit is the unit of what one notifier does for all: logs and quotas.
const watchUnit = "watch"

// leaseKeys are where the notifiers' leases are in their bucket.
var leaseKeys = lease.Keys{Member: "member.", Claim: "lease."}

// Run works this notifier's share of the units until ctx ends, finishes the
// attempts in progress, and gives its share back.
func (n *Notifier) Run(ctx context.Context) error {
	lease.Share(ctx, lease.ShareConfig{
		Leases: n.deps.Leases, Beat: n.cfg.Beat, Units: n.units, Work: n.workUnit, Logger: n.deps.Logger,
		Report: func(view lease.View, err error) {
			if n.note("sharing", err); err == nil {
				n.metrics.members.Set(float64(len(view.Members)))
			}
		},
	})
	return nil
}

func (n *Notifier) workUnit(ctx context.Context, unit string) error {
	group, ctx := errgroup.WithContext(ctx)
	part := func(name string, run func(context.Context) error) {
		group.Go(func() error { return n.keep(ctx, name+" "+unit, run) })
	}
	if unit == watchUnit {
		part("logs", n.watchLogs)
		part("quotas", n.watchQuotas)
		return group.Wait()
	}
	partition, err := strconv.Atoi(unit)
	if err != nil {
		return err
	}
	part("events", func(ctx context.Context) error { return newIntake(n, partition).run(ctx) })
	part("deliveries", func(ctx context.Context) error { return newDesk(n, partition).run(ctx) })
	part("rows", func(ctx context.Context) error { return newRecorder(n, partition).run(ctx) })
	return group.Wait()
}

// newMember returns the member of the leases in the bucket.
func newMember(ctx context.Context, js jetstream.JetStream, name string, logger *slog.Logger) (*lease.Member, error) {
	bucket, err := kv.Find(ctx, js, bucketName)
	if err != nil {
		return nil, err
	}
	return lease.NewMember(bucket, leaseKeys, name, logger)
}

// isLost returns whether ctx ended because another notifier has the work.
func isLost(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(cause, ledger.ErrFenced) || errors.Is(cause, lease.ErrLost)
}
