package project

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync/atomic"
	"time"
)

// ErrMiss says that a shared cache does not have the key.
var ErrMiss = errors.New("not in the shared cache")

// Shared is the cache that several processes have in common, Redis, or its
// stand-in where there is one process. It may forget anything at any time, may
// keep what was dropped, and may fail: the Cache is right all the same. Keys
// are short ASCII text, values at most some KiB; a caller may not change a value
// that it got or gave.
type Shared interface {
	// Load gives the key's value, or ErrMiss.
	Load(ctx context.Context, key string) ([]byte, error)
	// Store keeps the value for at most ttl, which is positive.
	Store(ctx context.Context, key string, value []byte, ttl time.Duration) error
	// Drop forgets the keys; those that are not there are no error.
	Drop(ctx context.Context, keys ...string) error
}

// sharedEntry is what the shared cache has of a token. AsOf makes it safe
// against everything that a shared cache can do wrong: it is the newest
// revision of the record that the process knew before it read the identity
// there. A reader believes it only if nothing was removed or changed after
// that, as far as the reader's own watch knows, and if it has itself seen the
// record get that far, which a record restored from a backup has not.
type sharedEntry struct {
	AsOf    uint64  `json:"as_of"`
	Holding holding `json:"holding"`
}

func (e *sharedEntry) believable(id TokenID, removed, seen uint64) bool {
	return e.Holding.TokenID == id.String() && removed <= e.AsOf && e.AsOf <= seen
}

// sharedLayer puts a Shared to use: bounded in time, counted, its failures
// logged once.
type sharedLayer struct {
	shared  Shared
	prefix  string // of keys: names the bucket by its birth, so that a store made anew meets no old entries
	ttl     time.Duration
	timeout time.Duration
	errors  atomic.Uint64
	health  health
}

func newSharedLayer(shared Shared, born time.Time, config CacheConfig, h health) *sharedLayer {
	return &sharedLayer{
		shared:  shared,
		prefix:  "t:" + strconv.FormatInt(born.UnixNano(), 36) + ":",
		ttl:     config.SharedTTL,
		timeout: config.SharedTimeout,
		health:  h,
	}
}

// load gives the entry of a token; usable is false where the shared cache
// failed, so that nothing more is asked of it on this look-up.
func (l *sharedLayer) load(ctx context.Context, id TokenID) (entry sharedEntry, found, usable bool) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	value, err := l.shared.Load(ctx, l.prefix+id.String())
	if errors.Is(err, ErrMiss) {
		l.note(nil)
		return entry, false, true
	}
	if err == nil {
		err = json.Unmarshal(value, &entry)
	}
	l.note(err)
	return entry, err == nil, err == nil
}

func (l *sharedLayer) store(ctx context.Context, id TokenID, entry sharedEntry) {
	value, err := json.Marshal(entry)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, l.timeout)
		defer cancel()
		err = l.shared.Store(ctx, l.prefix+id.String(), value, l.ttl)
	}
	l.note(err)
}

func (l *sharedLayer) drop(ctx context.Context, ids []TokenID) {
	if len(ids) == 0 {
		return
	}
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = l.prefix + id.String()
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	l.note(l.shared.Drop(ctx, keys...))
}

func (l *sharedLayer) note(err error) {
	if err != nil {
		l.errors.Add(1)
	}
	l.health.note(err)
}
