package project

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

// How the watch is kept honest. A watch that broke is silent, like one of a
// record that does not change, so twice a second the record's last revision is
// asked for, and the watch must get there.
const (
	proofEvery   = 400 * time.Millisecond
	proofTimeout = time.Second
	catchUp      = 500 * time.Millisecond
	watchPause   = 250 * time.Millisecond // before a watch is begun anew
)

var (
	errLapsed = errors.New("the record could not be asked for too long")
	errBehind = errors.New("the watch misses changes")
	errRewind = errors.New("the record is older than what was seen of it")
	errEnded  = errors.New("the watch ended")
)

// feed is what a Cache follows: the bucket, or in tests one that breaks.
type feed interface {
	// last is the newest revision, told by the leader.
	last(ctx context.Context) (uint64, error)
	// watch gives every change from the revision on, in order.
	watch(ctx context.Context, from uint64) (jetstream.KeyWatcher, error)
}

// Run follows the record and takes out of the caches what changes there, and
// has the record keep which tokens were used. It returns when ctx ends, and
// meanwhile begins anew whenever the watch breaks; what was remembered by then
// is looked up again.
func (c *Cache) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.followAll(ctx) })
	group.Go(func() error { return c.notes.run(ctx) })
	return group.Wait()
}

// followAll watches until ctx ends.
func (c *Cache) followAll(ctx context.Context) error {
	for {
		err := c.follow(ctx)
		if ctx.Err() != nil {
			return nil
		}
		c.following.note(err)
		select {
		case <-time.After(watchPause):
		case <-ctx.Done():
			return nil
		}
	}
}

// follow is one watch, from its beginning to its failure.
func (c *Cache) follow(ctx context.Context) error {
	began := c.now()
	base, err := c.lastRevision(ctx)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	watch, err := c.feed.watch(ctx, base+1)
	if err != nil {
		return err
	}
	defer stopWatch(watch)
	c.begin(base, began)
	group.Go(func() error { return c.applyAll(ctx, watch.Updates()) })
	group.Go(func() error { return c.proveAll(ctx) })
	return group.Wait()
}

// begin makes void what was remembered before, for nobody knows what the last
// watch missed. Everything up to base counts as removed, since this watch will
// not tell of it.
func (c *Cache) begin(base uint64, began time.Duration) {
	c.removed.Store(base)
	c.seen.Store(base)
	c.session.Add(1)
	c.changes.Add(1)
	c.confirmed.Store(int64(began))
	c.following.note(nil)
}

func (c *Cache) applyAll(ctx context.Context, updates <-chan jetstream.KeyValueEntry) error {
	for {
		select {
		case entry, open := <-updates:
			if !open {
				return errEnded
			}
			if entry != nil { // nil: as far as the bucket went when the watch began
				c.apply(ctx, entry)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// apply takes out of the caches what one change concerns. The order matters:
// the change is counted before entries go (see remember), and seen moves on
// last, so that what is proven was also applied.
func (c *Cache) apply(ctx context.Context, entry jetstream.KeyValueEntry) {
	c.count.changes.Add(1)
	c.changes.Add(1)
	dropped := c.forget(entry.Key())
	if !isHarmless(entry) {
		c.removed.Store(entry.Revision())
	}
	c.seen.Store(entry.Revision())
	select {
	case c.advanced <- struct{}{}:
	default: // there is a note of it already
	}
	if c.shared != nil {
		c.shared.drop(ctx, dropped)
	}
}

// isHarmless tells a change that makes no remembered token wrong from all
// others: a token's document is written once and then only deleted, and of the
// lists of tokens the cache makes no use.
func isHarmless(entry jetstream.KeyValueEntry) bool {
	return strings.HasPrefix(entry.Key(), ownKeys) ||
		entry.Operation() == jetstream.KeyValuePut && strings.HasPrefix(entry.Key(), tokenKeys)
}

// forget takes what the key is about out of the process's own caches, and tells
// which tokens the shared one may still have.
func (c *Cache) forget(key string) []TokenID {
	switch {
	case strings.HasPrefix(key, tokenKeys):
		id, err := ParseTokenID(strings.TrimPrefix(key, tokenKeys))
		if err != nil {
			return nil // written by hand: no token has such an ID
		}
		c.known.Invalidate(id)
		c.absent.Invalidate(id)
		return []TokenID{id}
	case strings.HasPrefix(key, projectKeys):
		return c.forgetProject(projectName(key))
	}
	return nil
}

func (c *Cache) forgetProject(name string) []TokenID {
	var dropped []TokenID
	for id, e := range c.known.All() {
		if e.token.identity.ProjectName == name {
			c.known.Invalidate(id)
			dropped = append(dropped, id)
		}
	}
	return dropped
}

func (c *Cache) proveAll(ctx context.Context) error {
	tick := time.NewTicker(proofEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := c.prove(ctx); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// prove confirms that the watch has told everything that had changed when the
// proof began. One proof that fails is no reason to give up the watch, but
// after a lapse in which entries did not count it is begun anew, so that
// nothing from before is relied upon.
func (c *Cache) prove(ctx context.Context) error {
	began, before := c.now(), c.seen.Load()
	last, err := c.lastRevision(ctx)
	if !c.isConfirmed(c.now()) {
		return errors.Join(errLapsed, err)
	}
	if err != nil {
		return nil // tried again soon, and nothing is confirmed by it
	}
	if last < before {
		return fmt.Errorf("%w: %d after %d", errRewind, last, before)
	}
	if err := c.awaitSeen(ctx, last); err != nil {
		return err
	}
	c.confirmed.Store(int64(began))
	return nil
}

func (c *Cache) lastRevision(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, proofTimeout)
	defer cancel()
	return c.feed.last(ctx)
}

func (c *Cache) awaitSeen(ctx context.Context, revision uint64) error {
	late := time.NewTimer(catchUp)
	defer late.Stop()
	for c.seen.Load() < revision {
		select {
		case <-c.advanced:
		case <-late.C:
			return fmt.Errorf("%w: at %d of %d", errBehind, c.seen.Load(), revision)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
