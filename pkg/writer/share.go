package writer

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

// goodbye bounds what is left to do when a writer stops: to give back its
// shards and to leave.
const goodbye = 3 * time.Second

// shard is what is shared out among writers: the logs and the events of one
// number. Its fields belong to the goroutine of share.
type shard struct {
	name    string
	workers []*worker
	stop    context.CancelCauseFunc // nil while it is not worked
	leaving bool                    // told to stop
	resting time.Time               // not to be worked before: somebody else does without a lease
}

// ended is the news that a shard is no longer worked.
type ended struct {
	shard *shard
	err   error
}

func newShard(w *Writer, number int) *shard {
	s := &shard{name: strconv.Itoa(number)}
	for _, kind := range []record.Kind{record.KindLog, record.KindEvent} {
		s.workers = append(s.workers, newWorker(w, kind, number))
	}
	return s
}

// share works this writer's share of the shards: it takes what nobody holds,
// gives back what is above its share, and lets go of what was taken from it.
func (w *Writer) share(ctx context.Context) error {
	news := make(chan ended, len(w.shards)) // one each: a shard is worked once at a time
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case e := <-news:
			w.over(ctx, e)
		case <-ctx.Done():
			w.leave(ctx, news)
			return ctx.Err()
		}
		w.balance(ctx, news)
		next.Reset(w.cfg.Beat)
	}
}

// balance is one look at who lives and holds what, and what follows from it.
func (w *Writer) balance(ctx context.Context, news chan<- ended) {
	view, err := w.deps.Leases.Beat(ctx)
	if err != nil {
		if ctx.Err() == nil {
			w.setTrouble("sharing", err)
		}
		return // whoever works a shard goes on: the ledger is the fence
	}
	w.setTrouble("sharing", nil)
	w.metrics.writers.Set(float64(len(view.Members)))
	for _, s := range w.shards {
		w.heed(ctx, s, view.Holders[s.name] == view.Self, news)
	}
	take, give := plan(view, w.names())
	for _, s := range w.shards {
		switch {
		case slices.Contains(give, s.name) && s.stop != nil && !s.leaving:
			w.deps.Logger.Info("shard handed over", "shard", s.name)
			s.leaving = true
			s.stop(errStopping)
		case slices.Contains(take, s.name) && s.stop == nil && time.Now().After(s.resting):
			w.take(ctx, s, news)
		}
	}
}

// heed makes a shard be worked where this writer holds it, and nowhere else.
func (w *Writer) heed(ctx context.Context, s *shard, mine bool, news chan<- ended) {
	switch {
	case s.stop != nil && !mine:
		s.leaving = true
		s.stop(stream.ErrFenced)
	case s.stop == nil && mine && time.Now().After(s.resting):
		w.start(ctx, s, news)
	case s.stop == nil && mine:
		w.release(ctx, s)
	}
}

func (w *Writer) take(ctx context.Context, s *shard, news chan<- ended) {
	taken, err := w.deps.Leases.Claim(ctx, s.name)
	if err != nil {
		w.deps.Logger.Warn("shard not taken", "shard", s.name, "err", err)
		return // the next look tells whether it was
	}
	if taken {
		w.start(ctx, s, news)
	}
}

// start works a shard until it is told to stop or another writer takes it.
func (w *Writer) start(ctx context.Context, s *shard, news chan<- ended) {
	ctx, s.stop = context.WithCancelCause(ctx)
	w.deps.Logger.Info("shard taken", "shard", s.name)
	w.setHeld(s, true)
	group, ctx := errgroup.WithContext(ctx)
	for _, worker := range s.workers {
		group.Go(func() error { return w.keepRunning(ctx, worker) })
	}
	go func() { // share waits for it, by its news
		err := group.Wait()
		news <- ended{s, err}
	}()
}

// over gives back a shard that is no longer worked.
func (w *Writer) over(ctx context.Context, e ended) {
	e.shard.stop(nil)
	e.shard.stop, e.shard.leaving = nil, false
	w.setHeld(e.shard, false)
	if errors.Is(e.err, stream.ErrFenced) {
		e.shard.resting = time.Now().Add(4 * w.cfg.Beat)
	}
	w.release(ctx, e.shard)
}

func (w *Writer) release(ctx context.Context, s *shard) {
	if err := w.deps.Leases.Release(ctx, s.name); err != nil {
		w.deps.Logger.Warn("shard not given back, it will lapse", "shard", s.name, "err", err)
	}
}

// leave waits until no shard is worked any more and takes this writer off the
// list, so that others need not wait for its leases to lapse.
func (w *Writer) leave(ctx context.Context, news <-chan ended) {
	worked := 0
	for _, s := range w.shards {
		if s.stop != nil {
			worked++
		}
	}
	for range worked {
		e := <-news
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
		w.over(ctx, e)
		cancel()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer cancel()
	if err := w.deps.Leases.Leave(ctx); err != nil {
		w.deps.Logger.Warn("writer not taken off the list, it will lapse", "err", err)
	}
}

// hold keeps the list of streams that are worked here, for tidy and audit.
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

func (w *Writer) names() []string {
	names := make([]string, len(w.shards))
	for i, s := range w.shards {
		names[i] = s.name
	}
	return names
}

// plan says what the looking member is to take and to give back. All members
// who see the same make the same plan: those who hold more keep the larger
// shares, so that as little as possible moves, and no share is above
// ceil(names / members).
func plan(view stream.LeaseView, names []string) (take, give []string) {
	held := map[string][]string{}
	var free []string
	for _, name := range names {
		if holder := view.Holders[name]; holder != "" {
			held[holder] = append(held[holder], name)
		} else {
			free = append(free, name)
		}
	}
	members := slices.Clone(view.Members) // sorted by name; the sort keeps that among equals
	slices.SortStableFunc(members, func(a, b string) int { return len(held[b]) - len(held[a]) })
	rank := slices.Index(members, view.Self)
	if rank < 0 {
		return nil, nil
	}
	quota := len(names) / len(members)
	if rank < len(names)%len(members) {
		quota++
	}
	mine := held[view.Self]
	if len(mine) > quota {
		return nil, mine[quota:]
	}
	// Members that start together begin at different places.
	lack := min(quota-len(mine), len(free))
	for i := range lack {
		take = append(take, free[(rank*quota+i)%len(free)])
	}
	return take, nil
}
