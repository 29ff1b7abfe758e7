package notify

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/logboom/logboom/pkg/outbox"
	"github.com/logboom/logboom/pkg/stream"
)

// desk hands what waits in one partition to its destinations, each of which has
// a goroutine, so that a slow or dead one delays no other.
type desk struct {
	n            *Notifier
	partition    int
	states       map[string]held // as they were when the partition was taken over
	destinations map[string]*destination
	seen         uint64 // the newest message that was handed on
}

func newDesk(n *Notifier, partition int) *desk {
	return &desk{n: n, partition: partition, destinations: map[string]*destination{}}
}

func (d *desk) run(ctx context.Context) (err error) {
	if d.states, err = d.n.deps.Bucket.states(ctx, d.partition); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.read(ctx, group) })
	err = group.Wait()
	for _, one := range d.destinations {
		one.forget()
	}
	return err
}

// read hands on what waits, the oldest first, and then what comes. The stream
// has gaps wherever something was delivered: where the reader takes that for a
// loss, it begins anew and passes over what was handed on.
func (d *desk) read(ctx context.Context, group *errgroup.Group) error {
	for {
		from, err := d.n.deps.Queue.Consume(ctx, outbox.Stream, 0, stream.ConsumerConfig{Subject: outbox.Subjects(d.partition), MaxBytes: 8 << 20})
		if err != nil {
			return err
		}
		err = d.readFrom(ctx, from, group)
		from.Close()
		if _, gap := errors.AsType[*stream.GapError](err); !gap {
			return err
		}
	}
}

func (d *desk) readFrom(ctx context.Context, from *stream.Consumer, group *errgroup.Group) error {
	for {
		delivery, err := from.Next(ctx)
		if err != nil {
			return err
		}
		if delivery.Seq <= d.seen {
			continue
		}
		d.seen = delivery.Seq
		entry, err := outbox.Decode(delivery.Data)
		if err != nil {
			d.n.deps.Logger.Error("waiting alert not read", "stream", outbox.Stream, "seq", delivery.Seq, "err", err)
			continue
		}
		d.destination(ctx, delivery.Subject, entry.Project, group).push(delivery.Seq, entry)
	}
}

// destination is the one that waits under a subject; the first message starts it.
func (d *desk) destination(ctx context.Context, subject, projectID string, group *errgroup.Group) *destination {
	if one := d.destinations[subject]; one != nil {
		return one
	}
	key := strings.TrimPrefix(subject, "notify."+strconv.Itoa(d.partition)+".")
	one := newDestination(d.n, projectID, subject, destinationKeys(d.partition)+key, d.states[key])
	d.destinations[subject] = one
	group.Go(func() error { return one.run(ctx) })
	return one
}

// longestAttempt is what an attempt that is under way gets when the notifier
// stops: a little more than a webhook may take.
const longestAttempt = 12 * time.Second

// outlive is a context that ends so long after ctx does, or at once where ctx
// ends because the work is another's.
func outlive(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	forget := context.AfterFunc(ctx, func() {
		if !isLost(ctx) {
			timer := time.NewTimer(grace)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-late.Done():
			}
		}
		cancel(context.Cause(ctx))
	})
	return late, func() {
		forget()
		cancel(nil)
	}
}
