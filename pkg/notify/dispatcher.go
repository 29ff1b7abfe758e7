package notify

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/logboom/logboom/pkg/outbox"
	"github.com/logboom/logboom/pkg/stream"
)

// dispatcher reads the outbox of one partition and passes each alert to its
// destination. Each destination has its own goroutine, so that a slow one delays
// no other.
type dispatcher struct {
	n            *Notifier
	partition    int
	states       map[string]storedState // by project key, as loaded at the start
	destinations map[string]*destination
	last         uint64 // the newest message that was passed on
}

func newDispatcher(n *Notifier, partition int) *dispatcher {
	return &dispatcher{n: n, partition: partition, destinations: map[string]*destination{}}
}

func (d *dispatcher) run(ctx context.Context) (err error) {
	if d.states, err = d.n.deps.Bucket.loadStates(ctx, d.partition); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.read(ctx, group) })
	err = group.Wait()
	for _, dest := range d.destinations {
		dest.unregister()
	}
	return err
}

// read reads the waiting alerts, the oldest first, and then the new ones. The
// stream has a gap wherever an alert was delivered. If the consumer reports a gap
// as a loss, read starts again and skips what was passed on.
func (d *dispatcher) read(ctx context.Context, group *errgroup.Group) error {
	for {
		consumer, err := d.n.deps.Queue.Consume(ctx, outbox.Stream, 0, stream.ConsumerConfig{Subject: outbox.Subjects(d.partition), MaxBytes: 8 << 20})
		if err != nil {
			return err
		}
		err = d.readFrom(ctx, consumer, group)
		consumer.Close()
		if _, gap := errors.AsType[*stream.GapError](err); !gap {
			return err
		}
	}
}

func (d *dispatcher) readFrom(ctx context.Context, consumer *stream.Consumer, group *errgroup.Group) error {
	for {
		delivery, err := consumer.Next(ctx)
		if err != nil {
			return err
		}
		if delivery.Seq <= d.last {
			continue
		}
		d.last = delivery.Seq
		entry, err := outbox.Decode(delivery.Data)
		if err != nil {
			d.n.deps.Logger.Error("waiting alert not decoded", "stream", outbox.Stream, "seq", delivery.Seq, "err", err)
			continue
		}
		d.destination(ctx, delivery.Subject, entry.Project, group).push(delivery.Seq, entry)
	}
}

// destination returns the destination of a subject, and starts it if the alert is
// its first one.
func (d *dispatcher) destination(ctx context.Context, subject, projectID string, group *errgroup.Group) *destination {
	if dest := d.destinations[subject]; dest != nil {
		return dest
	}
	key := strings.TrimPrefix(subject, "notify."+strconv.Itoa(d.partition)+".")
	dest := newDestination(d.n, projectID, subject, stateKeys(d.partition)+key, d.states[key])
	d.destinations[subject] = dest
	group.Go(func() error { return dest.run(ctx) })
	return dest
}
