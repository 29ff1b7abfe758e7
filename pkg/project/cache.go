package project

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
)

// CacheConfig bounds a Cache. The zero value means the defaults.
type CacheConfig struct {
	// Known bounds the tokens that the process remembers whose they are.
	// Default 100,000, at 330 bytes each (measured).
	Known int

	// Unknown bounds the tokens that it remembers to be nobody's, apart from
	// the others so that a flood of them displaces none. Default 10,000.
	Unknown int

	// SharedTTL is how long an entry stays in the shared cache. Default 10 min.
	SharedTTL time.Duration

	// SharedTimeout is how long the shared cache may take. Default 50 ms.
	SharedTimeout time.Duration

	// LookUps bounds how many tokens are looked up at once; more wait. Default
	// 64.
	LookUps int

	// Logger is told when the watch or the shared cache fails and recovers.
	// Default: none.
	Logger *slog.Logger
}

// Validate fills in defaults and names the first field that is out of range.
func (c *CacheConfig) Validate() error {
	for _, field := range []struct {
		name  string
		value int64
	}{
		{"Known", int64(c.Known)},
		{"Unknown", int64(c.Unknown)},
		{"SharedTTL", int64(c.SharedTTL)},
		{"SharedTimeout", int64(c.SharedTimeout)},
		{"LookUps", int64(c.LookUps)},
	} {
		if field.value < 0 {
			return &InvalidError{field.name, "must not be negative"}
		}
	}
	c.Known = cmp.Or(c.Known, 100_000)
	c.Unknown = cmp.Or(c.Unknown, 10_000)
	c.SharedTTL = cmp.Or(c.SharedTTL, 10*time.Minute)
	c.SharedTimeout = cmp.Or(c.SharedTimeout, 50*time.Millisecond)
	c.LookUps = cmp.Or(c.LookUps, 64)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return nil
}

// The times that together keep the promise that a revoked token is refused
// within 2 s, whatever is broken. A look-up takes at most lookUpTimeout; its
// result is good for ownTrust from its start on; and beyond that only while
// the watch was proven complete at most watchTrust ago.
const (
	lookUpTimeout = time.Second
	ownTrust      = time.Second
	watchTrust    = 1500 * time.Millisecond
)

// Cache answers whose token it is, for every request, without asking the
// record each time. Run must be running for it to be fast; without it, it is
// right all the same.
type Cache struct {
	store  *Store
	feed   feed
	shared *sharedLayer // nil: none
	known  *otter.Cache[TokenID, cached]
	absent *otter.Cache[TokenID, cached] // nobody's; token is nil

	flights flights
	slots   chan struct{} // capacity: look-ups at once
	now     func() time.Duration
	allowed time.Duration // for one look-up: lookUpTimeout, except in tests

	// What the watch knows. The order in which they are written and read
	// matters: see apply, begin and find.
	session   atomic.Uint64 // counts the watches; an entry of an earlier one is void
	changes   atomic.Uint64 // counts what the watch told, and the watches
	removed   atomic.Uint64 // newest revision that removed or changed something
	seen      atomic.Uint64 // newest revision of which the watch told
	confirmed atomic.Int64  // when the watch was last proven complete, by now
	advanced  chan struct{} // capacity 1: seen moved

	notes     *useNotes
	count     counters
	following health
}

// cached is what the process remembers of a token.
type cached struct {
	token   *holder       // nil: nobody's
	session uint64        // the watch during which it was found
	found   time.Duration // when its look-up in the record began, by now; long ago if it is not from there
}

// holder is whose a token is, and when its use was last noted. All copies of an
// entry share it.
type holder struct {
	identity Identity
	noted    atomic.Int64 // by now
}

// longAgo is when an entry was found that nothing but the watch vouches for.
const longAgo = time.Duration(-1 << 62)

// NewCache makes a cache over the record and, unless it is nil, a shared cache.
// It starts nothing: see Run.
func NewCache(store *Store, shared Shared, config CacheConfig) (*Cache, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	began := time.Now()
	c := &Cache{
		store:     store,
		feed:      store.projects,
		known:     newBounded[TokenID, cached](config.Known),
		absent:    newBounded[TokenID, cached](config.Unknown),
		flights:   flights{current: map[flightKey]*flight{}},
		slots:     make(chan struct{}, config.LookUps),
		now:       func() time.Duration { return time.Since(began) },
		allowed:   lookUpTimeout,
		advanced:  make(chan struct{}, 1),
		notes:     newUseNotes(store, newHealth(config.Logger, "record of tokens' last use")),
		following: newHealth(config.Logger, "token watch"),
	}
	c.confirmed.Store(int64(longAgo))
	if shared != nil {
		c.shared = newSharedLayer(shared, store.projects.created, config, newHealth(config.Logger, "shared token cache"))
	}
	return c, nil
}

// Authenticate tells whose token it is. The error is ErrMalformed where it can
// be no token, ErrUnknownToken where it is nobody's or was revoked, and
// ErrUnavailable where nobody can tell now.
func (c *Cache) Authenticate(ctx context.Context, token string) (Identity, error) {
	digest, err := ParseToken(token)
	if err != nil {
		c.count.malformed.Add(1)
		return Identity{}, err
	}
	now := c.now()
	// A refusal counts first: a look-up that was overtaken by the token's end
	// may be about to take back what it remembered.
	if e, ok := c.absent.GetIfPresent(digest.ID()); ok && c.trusts(e, now) {
		c.count.unknown.Add(1)
		return Identity{}, ErrUnknownToken
	}
	if e, ok := c.known.GetIfPresent(digest.ID()); ok && c.trusts(e, now) {
		c.count.hits.Add(1)
		c.noteUse(e.token, now)
		return e.token.identity, nil
	}
	identity, err := c.lookUp(ctx, digest)
	switch {
	case errors.Is(err, ErrUnknownToken):
		c.count.unknown.Add(1)
	case err != nil:
		c.count.unavailable.Add(1)
		err = fmt.Errorf("token: %w", err)
	}
	return identity, err
}

// trusts tells whether an entry still counts.
func (c *Cache) trusts(e cached, now time.Duration) bool {
	return now-e.found < ownTrust || e.session == c.session.Load() && c.isConfirmed(now)
}

func (c *Cache) isConfirmed(now time.Duration) bool {
	return now-time.Duration(c.confirmed.Load()) < watchTrust
}

func (c *Cache) lookUp(ctx context.Context, digest Digest) (Identity, error) {
	key := flightKey{digest.ID(), c.changes.Load()}
	return c.flights.do(ctx, key, func() (Identity, error) {
		// The look-up is everybody's who waits for it: it does not end with
		// the first one's request.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.allowed)
		defer cancel()
		began := c.now()
		identity, err := c.find(ctx, digest, key.changes)
		if took := c.now() - began; err == nil && took > c.allowed {
			// A process that was held up may have an answer of before a revocation.
			return Identity{}, fmt.Errorf("the look-up took %s: %w", took, ErrUnavailable)
		}
		return identity, err
	})
}

// find asks the shared cache, then the record, and remembers the answer unless
// something changed since: then it may be from before that change, which the
// watch has been through already and will not tell again.
func (c *Cache) find(ctx context.Context, digest Digest, changes uint64) (Identity, error) {
	e := cached{session: c.session.Load(), found: c.now()}
	id, asOf := digest.ID(), c.seen.Load()
	useShared := c.shared != nil && c.isConfirmed(e.found)
	if useShared {
		h, found, usable := c.fromShared(ctx, id)
		if found {
			e.found = longAgo
			return c.rememberKnown(id, h, e, changes), nil
		}
		useShared = usable
	}
	h, err := c.fromRecord(ctx, digest)
	if errors.Is(err, ErrUnknownToken) {
		c.known.Invalidate(id) // the watch may not have told yet, and may be trusted again
		c.remember(c.absent, id, e, changes)
	}
	if err != nil {
		return Identity{}, err
	}
	identity := c.rememberKnown(id, h, e, changes)
	if useShared {
		c.shared.store(ctx, id, sharedEntry{asOf, h})
	}
	return identity, nil
}

// rememberKnown is remember for a token that is somebody's and in use.
func (c *Cache) rememberKnown(id TokenID, h holding, e cached, changes uint64) Identity {
	e.token = &holder{identity: h.identity(c.store.defaults)}
	e.token.noted.Store(int64(longAgo))
	c.noteUse(e.token, c.now())
	c.remember(c.known, id, e, changes)
	return e.token.identity
}

// remember puts the entry where it belongs and takes it back if a change came
// in between. The watch counts the change before it removes entries, so one of
// the two always sees the other.
func (c *Cache) remember(where *otter.Cache[TokenID, cached], id TokenID, e cached, changes uint64) {
	if c.changes.Load() != changes {
		return
	}
	where.Set(id, e)
	if c.changes.Load() != changes {
		where.Invalidate(id)
	}
}

func (c *Cache) fromShared(ctx context.Context, id TokenID) (h holding, found, usable bool) {
	entry, found, usable := c.shared.load(ctx, id)
	if !found || !entry.believable(id, c.removed.Load(), c.seen.Load()) {
		return holding{}, false, usable
	}
	c.count.sharedHits.Add(1)
	return entry.Holding, true, true
}

func (c *Cache) fromRecord(ctx context.Context, digest Digest) (holding, error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return holding{}, fmt.Errorf("wait for a free look-up: %w: %w", ErrUnavailable, ctx.Err())
	}
	c.count.lookUps.Add(1)
	return c.store.holding(ctx, digest)
}
