package token

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/logboom/logboom/pkg/kv"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/secret"
)

// A watch that broke is silent, like that of a record that does not change.
// Therefore the cache asks for the record's last revision more than twice a
// second, and the watch must arrive there.
const (
	checkEvery      = 400 * time.Millisecond
	revisionTimeout = time.Second
	catchUpTimeout  = 500 * time.Millisecond
	restartPause    = 250 * time.Millisecond // before a new watch
)

var (
	errNotAsked  = errors.New("the record did not answer for too long")
	errBehind    = errors.New("the watch misses changes")
	errOldRecord = errors.New("the record is older than what the watch has seen")
)

// watch watches the record until ctx ends, with a new watch whenever one breaks.
func (c *Cache) watch(ctx context.Context) error {
	for {
		err := c.watchOnce(ctx)
		if ctx.Err() != nil {
			return nil
		}
		c.watching.record(err)
		select {
		case <-time.After(restartPause):
		case <-ctx.Done():
			return nil
		}
	}
}

// watchOnce runs one watch until it fails.
func (c *Cache) watchOnce(ctx context.Context) error {
	began := c.now()
	base, err := c.lastRevision(ctx)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	watcher, err := c.bucket.Watch(ctx, base+1)
	if err != nil {
		return err
	}
	defer watcher.Stop()
	c.begin(base, began)
	group.Go(func() error {
		for {
			entry, err := watcher.Next(ctx)
			if err != nil {
				return err
			}
			c.apply(ctx, entry)
		}
	})
	group.Go(func() error { return c.checkAll(ctx) })
	return group.Wait()
}

// begin discards what was cached before, because the last watch may have missed
// changes. Everything up to base counts as removed: this watch does not report
// it. The watch counts as complete last.
func (c *Cache) begin(base uint64, began time.Duration) {
	c.count.watches.Add(1)
	c.removed.Store(base)
	c.seen.Store(base)
	c.changes.Add(1)
	c.known.InvalidateAll()
	c.unknown.InvalidateAll()
	c.complete.Store(int64(began))
	c.watching.record(nil)
}

// apply removes from the caches what a change is about. It counts the change
// before it removes entries (see add), and sets seen last, so that a watch that
// is known to be complete has also applied everything.
func (c *Cache) apply(ctx context.Context, entry kv.Entry) {
	c.count.changes.Add(1)
	c.changes.Add(1)
	removed := c.invalidate(entry.Key)
	if !isHarmless(entry) {
		c.removed.Store(entry.Revision)
	}
	c.seen.Store(entry.Revision)
	select {
	case c.advanced <- struct{}{}:
	default: // awaitSeen will be woken already
	}
	if c.shared != nil {
		c.shared.drop(ctx, removed)
	}
}

// isHarmless reports whether a change makes no cached token wrong: a token's
// document is written once and then only deleted, and the cache does not use the
// lists of tokens.
func isHarmless(entry kv.Entry) bool {
	return strings.HasPrefix(entry.Key, listingKeys) ||
		!entry.Deleted && strings.HasPrefix(entry.Key, tokenKeys)
}

// invalidate removes what a key is about from the process's own caches. It
// returns the tokens that the shared cache may still have.
func (c *Cache) invalidate(key string) []secret.ID {
	if text, ok := strings.CutPrefix(key, tokenKeys); ok {
		id, err := secret.ParseID(text)
		if err != nil {
			return nil // no token has such an ID
		}
		c.known.Invalidate(id)
		c.unknown.Invalidate(id)
		return []secret.ID{id}
	}
	name, ok := project.NameInKey(key)
	if !ok {
		return nil
	}
	var removed []secret.ID
	for id, t := range c.known.All() {
		if t.identity.ProjectName == name {
			c.known.Invalidate(id)
			removed = append(removed, id)
		}
	}
	return removed
}

// checkAll checks every checkEvery that the watch is complete.
func (c *Cache) checkAll(ctx context.Context) error {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := c.check(ctx); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// check confirms that the watch has reported everything that had changed when
// the check began. One check without an answer does not end the watch. But after
// a time in which cached entries did not count, the watch starts again, so that
// nothing from before is relied on.
func (c *Cache) check(ctx context.Context) error {
	began, before := c.now(), c.seen.Load()
	last, err := c.lastRevision(ctx)
	if !c.isComplete(c.now()) {
		return errors.Join(errNotAsked, err)
	}
	if err != nil {
		return nil // the next check follows soon, and this one confirmed nothing
	}
	if last < before {
		return fmt.Errorf("%w: %d after %d", errOldRecord, last, before)
	}
	if err := c.awaitSeen(ctx, last); err != nil {
		return err
	}
	c.complete.Store(int64(began))
	return nil
}

func (c *Cache) lastRevision(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, revisionTimeout)
	defer cancel()
	return c.bucket.Revision(ctx)
}

func (c *Cache) awaitSeen(ctx context.Context, revision uint64) error {
	late := time.NewTimer(catchUpTimeout)
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
