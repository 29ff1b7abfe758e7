package token

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"github.com/logboom/logboom/pkg/kv"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/secret"
)

// The bounds of a Cache. Unknown tokens have a bound of their own, so that a
// flood of them displaces no known token.
const (
	maxKnown      = 100_000 // at 330 bytes each (measured)
	maxUnknown    = 10_000
	maxLookups    = 64 // in the record at once; others wait
	sharedTTL     = 10 * time.Minute
	sharedTimeout = 50 * time.Millisecond
)

// The times that together keep the promise that a revoked token is refused
// within 2 s, whatever is broken. A lookup takes at most lookupTimeout. Its
// result counts for lookupTrust from the start of the lookup, and after that
// only while the watch was known to be complete at most watchTrust ago.
const (
	lookupTimeout = time.Second
	lookupTrust   = time.Second
	watchTrust    = 1500 * time.Millisecond
)

// Cache finds the project of a token, for every request, and asks the record
// only for tokens that it has not cached. Without Run it is correct but slow.
type Cache struct {
	find     func(ctx context.Context, digest secret.Digest) (grant, error) // Store.find
	bucket   *kv.Bucket
	defaults project.Quotas
	shared   *sharedCache // nil: there is none
	known    *otter.Cache[secret.ID, *knownToken]
	unknown  *otter.Cache[secret.ID, time.Duration] // when the lookup of an unknown token began, by now

	lookups       singleflight.Group
	slots         chan struct{} // capacity: lookups in the record at once
	now           func() time.Duration
	lookupTimeout time.Duration // as the constant; longer in tests

	// What the watch knows. The order in which these are written and read
	// matters: see apply, begin and lookUp.
	changes  atomic.Uint64 // counts the changes that the watch reported, and its restarts
	removed  atomic.Uint64 // newest revision that removed or changed something
	seen     atomic.Uint64 // newest revision that the watch reported
	complete atomic.Int64  // when the watch was last known to be complete, by now
	advanced chan struct{} // capacity 1: seen has grown

	uses     *useRecorder
	count    counters
	watching health
}

// knownToken is what the process remembers about a token that is in use.
type knownToken struct {
	identity Identity
	found    time.Duration // when its lookup in the record began, by now; longAgo if it comes from elsewhere
	used     atomic.Int64  // when its use was last passed to the recorder, by now
}

// longAgo is the time of what counts only while the watch is complete.
const longAgo = time.Duration(-1 << 62)

// NewCache returns a cache over the store and, unless it is nil, a shared cache.
// The logger reports when the watch or the shared cache fails and recovers. Run
// starts the cache.
func NewCache(store *Store, shared Shared, logger *slog.Logger) *Cache {
	began := time.Now()
	c := &Cache{
		find:          store.find,
		bucket:        store.bucket,
		defaults:      store.projects.Defaults(),
		known:         newBounded[secret.ID, *knownToken](maxKnown),
		unknown:       newBounded[secret.ID, time.Duration](maxUnknown),
		slots:         make(chan struct{}, maxLookups),
		now:           func() time.Duration { return time.Since(began) },
		lookupTimeout: lookupTimeout,
		advanced:      make(chan struct{}, 1),
		uses:          newUseRecorder(store.RecordUses, newHealth(logger, "recording of tokens' last use")),
		watching:      newHealth(logger, "token watch"),
	}
	c.complete.Store(int64(longAgo))
	if shared != nil {
		c.shared = newSharedCache(shared, store.bucket.Created(), newHealth(logger, "shared token cache"))
	}
	return c
}

// newBounded returns a cache that does its housekeeping on its callers'
// goroutines.
func newBounded[K comparable, V any](maxEntries int) *otter.Cache[K, V] {
	return otter.Must(&otter.Options[K, V]{
		MaximumSize: maxEntries,
		Executor:    func(task func()) { task() },
	})
}

// Run watches the record, removes from the caches what changes there, and stores
// which tokens are used. It returns when ctx ends. When the watch breaks, Run
// starts it again, and what was cached is looked up again.
func (c *Cache) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.watch(ctx) })
	group.Go(func() error { return c.uses.run(ctx) })
	return group.Wait()
}

// Authenticate returns the identity of a token. The error is ErrMalformed if the
// text cannot be a token, ErrUnknown if it is not one or was revoked, and wraps
// project.ErrUnavailable if that cannot be found out now.
func (c *Cache) Authenticate(ctx context.Context, token string) (Identity, error) {
	digest, err := Parse(token)
	if err != nil {
		c.count.malformed.Add(1)
		return Identity{}, err
	}
	now := c.now()
	// A refusal counts first: a lookup that began before the token was revoked
	// may be about to remove what it cached.
	if found, ok := c.unknown.GetIfPresent(digest.ID()); ok && c.trusts(found, now) {
		c.count.unknown.Add(1)
		return Identity{}, ErrUnknown
	}
	if t, ok := c.known.GetIfPresent(digest.ID()); ok && c.trusts(t.found, now) {
		c.count.hits.Add(1)
		c.recordUse(t, now)
		return t.identity, nil
	}
	identity, err := c.lookUpOnce(ctx, digest)
	switch {
	case errors.Is(err, ErrUnknown):
		c.count.unknown.Add(1)
	case err != nil:
		c.count.unavailable.Add(1)
		err = fmt.Errorf("token: %w", err)
	}
	return identity, err
}

// trusts reports whether an entry that was found then still counts.
func (c *Cache) trusts(found, now time.Duration) bool {
	return now-found < lookupTrust || c.isComplete(now)
}

func (c *Cache) isComplete(now time.Duration) bool {
	return now-time.Duration(c.complete.Load()) < watchTrust
}

// recordUse passes the use of a token to the recorder, unless that was done
// within useEvery. It runs for every request.
func (c *Cache) recordUse(t *knownToken, now time.Duration) {
	last := t.used.Load()
	if now-time.Duration(last) < useEvery || !t.used.CompareAndSwap(last, int64(now)) {
		return
	}
	if !c.uses.record(Use{t.identity.ProjectID, t.identity.TokenID, time.Now()}) {
		t.used.Store(last) // the next request reports it
	}
}

// lookUpOnce looks a token up once for all callers that ask for it at the same
// time. A caller that asks after a change does not get the answer of a lookup
// that began before it. A caller whose context ends stops waiting; the lookup
// goes on for the others.
func (c *Cache) lookUpOnce(ctx context.Context, digest secret.Digest) (Identity, error) {
	changes, id := c.changes.Load(), digest.ID()
	key := string(binary.BigEndian.AppendUint64(id[:], changes))
	answer := c.lookups.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.lookupTimeout)
		defer cancel()
		began := c.now()
		identity, err := c.lookUp(ctx, digest, changes)
		if took := c.now() - began; err == nil && took > c.lookupTimeout {
			// The process may have been suspended, and a revocation since then missed.
			return Identity{}, fmt.Errorf("the lookup took %s: %w", took, project.ErrUnavailable)
		}
		return identity, err
	})
	select {
	case result := <-answer:
		identity, _ := result.Val.(Identity)
		return identity, result.Err
	case <-ctx.Done():
		return Identity{}, fmt.Errorf("wait for the lookup: %w: %w", project.ErrUnavailable, ctx.Err())
	}
}

// lookUp asks the shared cache, then the record, and caches the answer unless
// something changed since: then the answer may be from before a change that the
// watch has already reported and will not report again.
func (c *Cache) lookUp(ctx context.Context, digest secret.Digest, changes uint64) (Identity, error) {
	began, id, asOf := c.now(), digest.ID(), c.seen.Load()
	useShared := c.shared != nil && c.isComplete(began)
	if useShared {
		entry, found, usable := c.shared.load(ctx, id)
		if found && entry.isCurrent(id, c.removed.Load(), c.seen.Load()) {
			c.count.sharedHits.Add(1)
			return c.addKnown(id, entry.Grant, longAgo, changes), nil
		}
		useShared = usable
	}
	g, err := c.findInRecord(ctx, digest)
	if errors.Is(err, ErrUnknown) {
		c.known.Invalidate(id) // the watch may not have reported it yet, and may count again
		add(c, c.unknown, id, began, changes)
	}
	if err != nil {
		return Identity{}, err
	}
	identity := c.addKnown(id, g, began, changes)
	if useShared {
		c.shared.store(ctx, id, sharedEntry{asOf, g})
	}
	return identity, nil
}

func (c *Cache) findInRecord(ctx context.Context, digest secret.Digest) (grant, error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return grant{}, fmt.Errorf("wait for other lookups: %w: %w", project.ErrUnavailable, ctx.Err())
	}
	c.count.lookups.Add(1)
	return c.find(ctx, digest)
}

// addKnown caches a token that is known and in use.
func (c *Cache) addKnown(id secret.ID, g grant, found time.Duration, changes uint64) Identity {
	t := &knownToken{identity: g.identity(c.defaults), found: found}
	t.used.Store(int64(longAgo))
	c.recordUse(t, c.now())
	add(c, c.known, id, t, changes)
	return t.identity
}

// add puts a value into a cache and removes it again if something changed in
// between. The watch counts a change before it removes entries, so one of the
// two always notices the other.
func add[V any](c *Cache, to *otter.Cache[secret.ID, V], id secret.ID, value V, changes uint64) {
	if c.changes.Load() != changes {
		return
	}
	to.Set(id, value)
	if c.changes.Load() != changes {
		to.Invalidate(id)
	}
}

// Stats are the counts of a Cache since it was created.
type Stats struct {
	Hits         uint64 // answered from the process's own cache
	SharedHits   uint64 // answered from the shared cache
	Lookups      uint64 // asked of the record
	Unknown      uint64 // refused: no such token, or revoked
	Malformed    uint64 // refused by form and checksum
	Unavailable  uint64 // not answered, because the record was unavailable
	SharedErrors uint64 // the shared cache failed or took too long
	Changes      uint64 // changes of the record that the watch reported
	Watches      uint64 // times that the watch started; the first is not a failure
	UsesDropped  uint64 // uses of tokens that were not recorded for lack of room
	Watching     bool   // the watch is known to be complete now
}

// counters are what Stats reads, each updated where it happens.
type counters struct {
	hits, sharedHits, lookups, unknown, malformed, unavailable, changes, watches atomic.Uint64
}

// Stats returns the counts.
func (c *Cache) Stats() Stats {
	s := Stats{
		Hits:        c.count.hits.Load(),
		SharedHits:  c.count.sharedHits.Load(),
		Lookups:     c.count.lookups.Load(),
		Unknown:     c.count.unknown.Load(),
		Malformed:   c.count.malformed.Load(),
		Unavailable: c.count.unavailable.Load(),
		Changes:     c.count.changes.Load(),
		Watches:     c.count.watches.Load(),
		UsesDropped: c.uses.dropped.Load(),
		Watching:    c.isComplete(c.now()),
	}
	if c.shared != nil {
		s.SharedErrors = c.shared.errors.Load()
	}
	return s
}

// health logs once when something fails and once when it recovers.
type health struct {
	logger *slog.Logger
	name   string
	broken *atomic.Bool
}

func newHealth(logger *slog.Logger, name string) health {
	return health{logger: logger, name: name, broken: new(atomic.Bool)}
}

// record adds the outcome of one more use.
func (h health) record(err error) {
	switch {
	case err != nil && h.broken.CompareAndSwap(false, true):
		h.logger.Warn(h.name+" failed", "err", err)
	case err == nil && h.broken.Load() && h.broken.CompareAndSwap(true, false):
		h.logger.Info(h.name + " recovered")
	}
}
