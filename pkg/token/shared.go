package token

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/redis/go-redis/v9"

	"github.com/logboom/logboom/pkg/secret"
)

// ErrMiss means that a shared cache does not have the key.
var ErrMiss = errors.New("not in the shared cache")

// Shared is a cache that several processes use together: Redis, or
// MemoryShared if there is one process. It may lose anything at any time, may
// keep what was dropped, and may fail; Cache is correct all the same. Keys are
// short ASCII text and values at most a few KiB. A caller may not change a value
// after it stored or loaded it.
type Shared interface {
	// Load returns the key's value, or ErrMiss.
	Load(ctx context.Context, key string) ([]byte, error)
	// Store keeps the value for at most ttl, which is positive.
	Store(ctx context.Context, key string, value []byte, ttl time.Duration) error
	// Drop removes the keys. A key that is not there is no error.
	Drop(ctx context.Context, keys ...string) error
}

// sharedEntry is what the shared cache holds of a token. AsOf is the newest
// revision of the record that the process knew before it read the grant there.
// It protects against everything that a shared cache can do wrong: see
// isCurrent.
type sharedEntry struct {
	AsOf  uint64 `json:"as_of"`
	Grant grant  `json:"holding"`
}

// isCurrent reports whether the entry can be used: nothing was removed or
// changed after the grant was read, as far as this process's watch knows, and
// this process has itself seen the record reach that revision. A record that was
// restored from a backup may not have reached it.
func (e *sharedEntry) isCurrent(id secret.ID, removed, seen uint64) bool {
	return e.Grant.TokenID == id.String() && removed <= e.AsOf && e.AsOf <= seen
}

// sharedCache calls a Shared with a timeout, counts its failures and logs the
// first of them.
type sharedCache struct {
	shared Shared
	prefix string // of keys: names the bucket by its time of creation, so that a new one finds no old entries
	errors atomic.Uint64
	health health
}

func newSharedCache(shared Shared, created time.Time, h health) *sharedCache {
	return &sharedCache{shared: shared, prefix: "t:" + strconv.FormatInt(created.UnixNano(), 36) + ":", health: h}
}

// load returns the entry of a token. If usable is false, the shared cache failed
// and the lookup should not use it again.
func (c *sharedCache) load(ctx context.Context, id secret.ID) (entry sharedEntry, found, usable bool) {
	ctx, cancel := context.WithTimeout(ctx, sharedTimeout)
	defer cancel()
	value, err := c.shared.Load(ctx, c.prefix+id.String())
	if errors.Is(err, ErrMiss) {
		c.record(nil)
		return entry, false, true
	}
	if err == nil {
		err = json.Unmarshal(value, &entry)
	}
	c.record(err)
	return entry, err == nil, err == nil
}

func (c *sharedCache) store(ctx context.Context, id secret.ID, entry sharedEntry) {
	value, err := json.Marshal(entry)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, sharedTimeout)
		defer cancel()
		err = c.shared.Store(ctx, c.prefix+id.String(), value, sharedTTL)
	}
	c.record(err)
}

func (c *sharedCache) drop(ctx context.Context, ids []secret.ID) {
	if len(ids) == 0 {
		return
	}
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = c.prefix + id.String()
	}
	ctx, cancel := context.WithTimeout(ctx, sharedTimeout)
	defer cancel()
	c.record(c.shared.Drop(ctx, keys...))
}

func (c *sharedCache) record(err error) {
	if err != nil {
		c.errors.Add(1)
	}
	c.health.record(err)
}

// MemoryShared is the Shared of a single process, such as standalone.
type MemoryShared struct {
	values *otter.Cache[string, memoryValue]
	now    func() time.Time
}

type memoryValue struct {
	value   []byte
	expires time.Time
}

// maxMemoryValues bounds a MemoryShared to about 6 MiB, at 300 bytes each.
const maxMemoryValues = 20_000

// NewMemoryShared returns an empty MemoryShared. It starts no goroutine.
func NewMemoryShared() *MemoryShared {
	return &MemoryShared{values: newBounded[string, memoryValue](maxMemoryValues), now: time.Now}
}

// Load implements Shared.
func (m *MemoryShared) Load(_ context.Context, key string) ([]byte, error) {
	v, ok := m.values.GetIfPresent(key)
	if !ok || !m.now().Before(v.expires) {
		return nil, ErrMiss
	}
	return v.value, nil
}

// Store implements Shared.
func (m *MemoryShared) Store(_ context.Context, key string, value []byte, ttl time.Duration) error {
	m.values.Set(key, memoryValue{value, m.now().Add(ttl)})
	return nil
}

// Drop implements Shared.
func (m *MemoryShared) Drop(_ context.Context, keys ...string) error {
	for _, key := range keys {
		m.values.Invalidate(key)
	}
	return nil
}

// RedisShared is the Shared of a cluster.
type RedisShared struct {
	client redis.UniversalClient
}

// NewRedisShared returns a Shared that uses the client, which redis.Open of this
// module should have opened. The caller closes the client.
func NewRedisShared(client redis.UniversalClient) *RedisShared {
	return &RedisShared{client: client}
}

// Load implements Shared.
func (r *RedisShared) Load(ctx context.Context, key string) ([]byte, error) {
	value, err := r.client.Get(ctx, key).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, ErrMiss
	}
	return value, err
}

// Store implements Shared.
func (r *RedisShared) Store(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	return r.client.Set(ctx, key, value, ttl).Err()
}

// Drop implements Shared. It sends one command for each key, in a pipeline: in a
// Redis cluster the keys are on different nodes.
func (r *RedisShared) Drop(ctx context.Context, keys ...string) error {
	_, err := r.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, key := range keys {
			pipe.Unlink(ctx, key)
		}
		return nil
	})
	return err
}
