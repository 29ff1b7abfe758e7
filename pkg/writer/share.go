package writer

import (
	"context"
	"errors"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/logboom/logboom/pkg/lease"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/record"
)

// leaseKeys are where the writers' leases are in the ledger's bucket, beside the
// positions.
var leaseKeys = lease.Keys{Member: "l.member.", Claim: "l.claim."}

// shard is what writers share: the logs and the events of one number.
type shard struct {
	name    string
	workers []*worker
}

func newShard(w *Writer, number int) *shard {
	s := &shard{name: strconv.Itoa(number)}
	for _, kind := range []record.Kind{record.KindLog, record.KindEvent} {
		s.workers = append(s.workers, newWorker(w, kind, number))
	}
	return s
}

// share stores this writer's share of the shards until ctx ends.
func (w *Writer) share(ctx context.Context) error {
	shards := map[string]*shard{}
	names := make([]string, len(w.shards))
	for i, s := range w.shards {
		names[i], shards[s.name] = s.name, s
	}
	lease.Share(ctx, lease.ShareConfig{
		Leases: w.deps.Leases, Beat: w.settings.beat, Units: names, Logger: w.deps.Logger,
		Work: func(ctx context.Context, name string) error { return w.work(ctx, shards[name]) },
		Report: func(view lease.View, err error) {
			if w.setTrouble("sharing", err); err == nil {
				w.metrics.writers.Set(float64(len(view.Members)))
			}
		},
	})
	return ctx.Err()
}

// work runs a shard's workers until ctx ends or another writer takes a stream.
func (w *Writer) work(ctx context.Context, s *shard) error {
	w.setHeld(s, true)
	defer w.setHeld(s, false)
	group, ctx := errgroup.WithContext(ctx)
	for _, worker := range s.workers {
		group.Go(func() error { return w.keepRunning(ctx, worker) })
	}
	return group.Wait()
}

// isLost returns whether ctx ended because another writer has the shard.
func isLost(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(cause, ledger.ErrFenced) || errors.Is(cause, lease.ErrLost)
}

// setHeld updates the list of the streams that this writer stores, which purge and
// audit read.
func (w *Writer) setHeld(s *shard, held bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, worker := range s.workers {
		if held {
			w.workers[worker.stream] = worker
			continue
		}
		delete(w.workers, worker.stream)
		delete(w.troubles, worker.stream)
		w.metrics.forget(worker.stream)
	}
}
