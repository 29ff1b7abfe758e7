package token

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/embedded/natstest"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/redis/redistest"
	"github.com/logboom/logboom/pkg/secret"
)

// The promise: a revoked token is refused everywhere within this.
const promise = 2 * time.Second

// ask calls Authenticate until the record answers: on a busy machine a lookup
// may time out.
func ask(t testing.TB, c *Cache, token string) (identity Identity, err error) {
	t.Helper()
	eventually(t, func() bool {
		identity, err = c.Authenticate(t.Context(), token)
		return !errors.Is(err, project.ErrUnavailable)
	})
	return identity, err
}

func known(t testing.TB, c *Cache, token string) Identity {
	t.Helper()
	identity, err := ask(t, c, token)
	if err != nil {
		t.Fatal(err)
	}
	return identity
}

func isUnknown(t testing.TB, c *Cache, token string) bool {
	t.Helper()
	_, err := ask(t, c, token)
	if err != nil && !errors.Is(err, ErrUnknown) {
		t.Fatal(err)
	}
	return err != nil
}

// answered returns how many lookups in the record were answered.
func answered(s Stats) uint64 { return s.Lookups - s.Unavailable }

func TestCacheAsksEachLayerOnce(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	token, value := newToken(t, store, "demo")
	var first, second *Cache
	eventually(t, func() bool {
		shared := NewMemoryShared() // which a busy machine does not make late
		first, second = newCache(t, store, shared), newCache(t, store, shared)
		follow(t, first)
		follow(t, second)
		firstCalm, secondCalm := undisturbed(first), undisturbed(second)
		for range 3 {
			if identity := known(t, first, value); identity.TokenID != token.ID || identity.ProjectID != token.ProjectID {
				t.Fatalf("%+v", identity)
			}
		}
		if known(t, second, value) != known(t, first, value) {
			t.Error("two processes disagree")
		}
		return firstCalm() && secondCalm()
	})
	if s := first.Stats(); answered(s) != 1 || s.Hits != 3 || s.SharedHits != 0 {
		t.Errorf("the first process: %+v", s)
	}
	if s := second.Stats(); s.Lookups != 0 || s.SharedHits != 1 || s.SharedErrors != 0 {
		t.Errorf("the second process: %+v", s)
	}
}

func TestCacheRefusesMalformedTokensWithoutALookup(t *testing.T) {
	t.Parallel()
	cache := newCache(t, newStore(t), nil)
	for _, token := range []string{"", "x", New().Reveal()[1:], secret.Generate("lgk_").Reveal()} {
		if _, err := cache.Authenticate(t.Context(), token); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v", token, err)
		}
	}
	if s := cache.Stats(); s.Lookups != 0 || s.Malformed != 4 {
		t.Errorf("%+v", s)
	}
}

// slowLookups holds back the answers of lookups in the record.
type slowLookups struct {
	read    chan struct{} // receives one for each lookup that has its answer; never full
	release chan struct{} // closed: no answer is held back
}

// slowDown makes the cache's lookups in the record slow.
func slowDown(cache *Cache) *slowLookups {
	slow := &slowLookups{make(chan struct{}, 1000), make(chan struct{})}
	find := cache.find
	cache.find = func(ctx context.Context, digest secret.Digest) (grant, error) {
		g, err := find(ctx, digest)
		slow.read <- struct{}{}
		<-slow.release
		return g, err
	}
	return slow
}

func TestCacheLooksATokenUpOnceForManyCallers(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	_, value := newToken(t, store, "demo")
	cache := newCache(t, store, NewMemoryShared())
	cache.lookupTimeout = patience
	stopClock(cache) // for callers that come late
	slow := slowDown(cache)
	var callers sync.WaitGroup
	for range 200 {
		callers.Go(func() {
			if _, err := cache.Authenticate(t.Context(), value); err != nil {
				t.Error(err)
			}
		})
	}
	<-slow.read
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := cache.Authenticate(gone, value); !errors.Is(err, project.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("a caller whose context ended: %v", err)
	}
	close(slow.release)
	callers.Wait()
	if s := cache.Stats(); s.Lookups != 1 {
		t.Errorf("%+v", s)
	}
}

func TestTokenRevokedDuringItsLookupIsNotCached(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	token, value := newToken(t, store, "demo")
	cache := newCache(t, store, NewMemoryShared())
	cache.lookupTimeout = patience
	follow(t, cache)
	slow := slowDown(cache)
	letGo := sync.OnceFunc(func() { close(slow.release) })
	defer letGo()

	first := make(chan error, 1) // one answer
	go func() {
		_, err := cache.Authenticate(context.Background(), value)
		first <- err
	}()
	<-slow.read // the lookup has read the token's document
	changes := cache.changes.Load()
	if err := store.DeleteToken(t.Context(), "demo", token.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return cache.changes.Load() > changes })
	late := make(chan bool, 1) // one answer
	go func() {
		_, err := cache.Authenticate(context.Background(), value)
		late <- errors.Is(err, ErrUnknown)
	}()
	eventually(t, func() bool { return len(slow.read) > 0 }) // it started a lookup of its own
	letGo()
	if err := <-first; err != nil {
		t.Fatalf("the lookup that began before the revocation: %v", err)
	}
	if !<-late {
		t.Error("a caller after the revocation got the answer of a lookup before it")
	}
	if !isUnknown(t, cache, value) {
		t.Error("a revoked token was cached")
	}
	second := newCache(t, store, cache.shared.shared)
	follow(t, second)
	if !isUnknown(t, second, value) {
		t.Error("a revoked token was left in the shared cache")
	}
}

func TestLookupThatTookTooLongIsNotUsed(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	_, value := newToken(t, store, "demo")
	cache := newCache(t, store, nil)
	cache.now = func() time.Duration { return time.Duration(cache.count.lookups.Load()) * 2 * lookupTimeout } // the lookup takes too long
	if _, err := cache.Authenticate(t.Context(), value); !errors.Is(err, project.ErrUnavailable) {
		t.Errorf("answer after %s: %v", 2*lookupTimeout, err)
	}
}

// A watch that is late does not count for a moment, and then counts again before
// it has reported the revocation.
func TestRefusalByTheRecordStaysWhenTheWatchCountsAgain(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	token, value := newToken(t, store, "demo")
	cache := newCache(t, store, nil) // no watch runs: the test says when it counts
	at := time.Second
	cache.now = func() time.Duration { return at }
	trust := func(trusted bool) {
		at += 2 * lookupTrust
		cache.complete.Store(int64(longAgo))
		if trusted {
			cache.complete.Store(int64(at))
		}
	}
	trust(true)
	known(t, cache, value)
	if err := store.DeleteToken(t.Context(), "demo", token.ID); err != nil {
		t.Fatal(err)
	}
	for _, trusted := range []bool{false, true} {
		if trust(trusted); !isUnknown(t, cache, value) {
			t.Errorf("a token that the record does not have was accepted, watch trusted: %v", trusted)
		}
	}
}

func TestRevokedTokensStayRefusedUnderLoad(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	if _, err := store.CreateProject(t.Context(), "demo"); err != nil {
		t.Fatal(err)
	}
	shared := openShared(t, redistest.Start(t).URL())
	caches := []*Cache{newCache(t, store, shared), newCache(t, store, shared)}
	for _, cache := range caches {
		follow(t, cache)
	}
	for range 20 {
		token, secret, err := store.CreateToken(t.Context(), "demo", "x")
		if err != nil {
			t.Fatal(err)
		}
		refuseAfterRevocation(t, caches, secret.Reveal(), func() error {
			return store.DeleteToken(t.Context(), "demo", token.ID)
		})
	}
}

// refuseAfterRevocation uses the token all the time while it is revoked, and
// checks that a cache that has refused it never accepts it again.
func refuseAfterRevocation(t *testing.T, caches []*Cache, token string, revoke func() error) {
	t.Helper()
	var users sync.WaitGroup
	var revokedAt atomic.Int64
	for _, cache := range caches {
		for range 4 {
			users.Go(func() {
				var refused int
				for refused < 100 {
					asked := time.Now()
					_, err := cache.Authenticate(t.Context(), token)
					if errors.Is(err, project.ErrUnavailable) {
						continue
					}
					if err != nil && !errors.Is(err, ErrUnknown) {
						t.Error(err)
						return
					}
					at := revokedAt.Load()
					switch {
					case err != nil:
						refused++
					case refused > 0:
						t.Error("accepted after it was refused")
						return
					case at != 0 && asked.Sub(time.Unix(0, at)) > promise:
						t.Error("accepted after the promised time")
						return
					}
				}
			})
		}
		known(t, cache, token)
	}
	if err := revoke(); err != nil {
		t.Error(err)
	}
	revokedAt.Store(time.Now().UnixNano())
	users.Wait()
}

func TestChangesReachTheCacheAtOnce(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	_, value := newToken(t, store, "demo")
	cache := newCache(t, store, NewMemoryShared())
	follow(t, cache)

	if identity := known(t, cache, value); identity.RetentionDays != 30 {
		t.Errorf("%+v", identity)
	}
	if _, err := store.ChangeSettings(t.Context(), "demo", func(s *project.Settings) { s.RetentionDays = 7 }); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return known(t, cache, value).RetentionDays == 7 })

	later := unknownToken(t, cache)
	if _, err := store.AddToken(t.Context(), "demo", "later", later); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return !isUnknown(t, cache, later.Reveal()) })

	if _, err := store.DeleteProject(t.Context(), "demo"); err != nil {
		t.Fatal(err)
	}
	deleted := time.Now()
	refusedInTime(t, cache, value, deleted)
	refusedInTime(t, cache, later.Reveal(), deleted)
}

// unknownToken returns a token that the cache has cached as unknown.
func unknownToken(t *testing.T, cache *Cache) (token secret.Value) {
	t.Helper()
	eventually(t, func() bool {
		token = New()
		calm, before := undisturbed(cache), answered(cache.Stats())
		for range 2 {
			if !isUnknown(t, cache, token.Reveal()) {
				t.Error("a token was accepted before it was created")
			}
		}
		if n := answered(cache.Stats()) - before; calm() && n != 1 {
			t.Errorf("an unknown token was looked up %d times", n)
		}
		return calm()
	})
	return token
}

// refusedInTime waits until the token is refused. It fails the test if a request
// was accepted later after the end of the token than promised.
func refusedInTime(t *testing.T, cache *Cache, token string, ended time.Time) {
	t.Helper()
	eventually(t, func() bool {
		asked := time.Now()
		_, err := cache.Authenticate(t.Context(), token)
		if late := asked.Sub(ended); err == nil && late > promise {
			t.Fatalf("accepted %s after its end", late)
		}
		if err != nil && !errors.Is(err, ErrUnknown) && !errors.Is(err, project.ErrUnavailable) {
			t.Fatal(err)
		}
		return errors.Is(err, ErrUnknown)
	})
}

func TestFloodOfUnknownTokensDisplacesNoKnownOne(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	_, value := newToken(t, store, "demo")
	cache := newCache(t, store, nil)
	cache.known, cache.unknown = newBounded[secret.ID, *knownToken](10), newBounded[secret.ID, time.Duration](10)
	stopClock(cache)
	known(t, cache, value)
	for range 500 {
		if !isUnknown(t, cache, New().Reveal()) {
			t.Fatal("an unknown token was accepted")
		}
	}
	if n := cache.unknown.EstimatedSize(); n > 20 {
		t.Errorf("%d unknown tokens are cached", n)
	}
	before := answered(cache.Stats())
	known(t, cache, value)
	if answered(cache.Stats()) != before {
		t.Error("the known token was displaced")
	}
}

func TestCacheWithoutAWatchIsCorrect(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	token, value := newToken(t, store, "demo")
	shared := openShared(t, redistest.Start(t).URL())
	cache := newCache(t, store, shared)
	known(t, cache, value)
	if err := store.DeleteToken(t.Context(), "demo", token.ID); err != nil {
		t.Fatal(err)
	}
	refusedInTime(t, cache, value, time.Now())
}

// deafQueue has a bucket whose first watch of all keys reports nothing, like one
// whose consumer is gone.
type deafQueue struct{ jetstream.JetStream }

func (q deafQueue) KeyValue(ctx context.Context, bucket string) (jetstream.KeyValue, error) {
	found, err := q.JetStream.KeyValue(ctx, bucket)
	return &deafKV{KeyValue: found}, err
}

type deafKV struct {
	jetstream.KeyValue
	watches atomic.Int32
}

func (k *deafKV) WatchAll(ctx context.Context, opts ...jetstream.WatchOpt) (jetstream.KeyWatcher, error) {
	if k.watches.Add(1) == 1 {
		return deafWatch{}, nil
	}
	return k.KeyValue.WatchAll(ctx, opts...)
}

type deafWatch struct{}

func (deafWatch) Updates() <-chan jetstream.KeyValueEntry { return nil }
func (deafWatch) Error() <-chan error                     { return nil }
func (deafWatch) Stop() error                             { return nil }

func TestWatchThatReportsNothingIsReplaced(t *testing.T) {
	t.Parallel()
	store := openStores(t, deafQueue{patientStream(t, natstest.Start(t, embedded.NATSConfig{DataDir: t.TempDir()}).URL())}, project.Config{})
	token, value := newToken(t, store, "demo")
	cache := newCache(t, store, NewMemoryShared())
	follow(t, cache)
	known(t, cache, value)
	if err := store.DeleteToken(t.Context(), "demo", token.ID); err != nil {
		t.Fatal(err)
	}
	refusedInTime(t, cache, value, time.Now())
	eventually(t, func() bool { s := cache.Stats(); return s.Watches > 1 && s.Watching })
}

func TestPartitionedProcessRefusesARevokedTokenInTime(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, embedded.NATSConfig{DataDir: t.TempDir()})
	admin := connect(t, server.URL())
	gone, goneValue := newToken(t, admin, "gone")
	_, goodValue := newToken(t, admin, "good")

	wire := startProxy(t, server.Addr())
	cache := newCache(t, connect(t, strings.Replace(server.URL(), server.Addr(), wire.addr(), 1)), openShared(t, redistest.Start(t).URL()))
	follow(t, cache)
	known(t, cache, goneValue)
	known(t, cache, goodValue)

	wire.set(true)
	if err := admin.DeleteToken(t.Context(), "gone", gone.ID); err != nil {
		t.Fatal(err)
	}
	revoked := time.Now()
	var users sync.WaitGroup
	for range 4 {
		users.Go(func() {
			for time.Since(revoked) < promise+time.Second {
				asked := time.Now()
				_, err := cache.Authenticate(t.Context(), goneValue)
				if err == nil && asked.Sub(revoked) > promise {
					t.Errorf("accepted %s after it was revoked", asked.Sub(revoked))
					return
				}
			}
		})
	}
	users.Wait()
	if _, err := cache.Authenticate(t.Context(), goodValue); !errors.Is(err, project.ErrUnavailable) {
		t.Errorf("a valid token while the record does not answer: %v", err)
	}

	wire.set(false)
	known(t, cache, goodValue)
	if !isUnknown(t, cache, goneValue) {
		t.Error("the revoked token was accepted afterwards")
	}
	eventually(t, func() bool { return cache.Stats().Watching })
}

func TestCacheWatchesAgainAfterTheRecordRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := natstest.Start(t, embedded.NATSConfig{DataDir: dir})
	wire := startProxy(t, server.Addr())
	token := strings.TrimPrefix(strings.Split(server.URL(), "@")[0], "nats://")
	store := connect(t, "nats://"+token+"@"+wire.addr())
	_, value := newToken(t, store, "demo")
	cache := newCache(t, store, NewMemoryShared())
	follow(t, cache)
	known(t, cache, value)
	wire.retarget("")
	natstest.Stop(t, server)
	eventually(t, func() bool { return !cache.Stats().Watching })

	again := natstest.Start(t, embedded.NATSConfig{DataDir: dir, Token: token})
	wire.retarget(again.Addr())
	eventually(t, func() bool { return cache.Stats().Watching })
	known(t, cache, value)
}

func TestValidTokensWorkWhateverRedisDoes(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	_, warm := newToken(t, store, "warm")
	redis := redistest.Start(t)
	log := &sink{}
	cache := NewCache(store.Store, openShared(t, redis.URL()), slog.New(slog.NewTextHandler(log, nil)))
	follow(t, cache)
	known(t, cache, warm)

	redis.Pause(t)
	awake, recovered := redistest.StartAwake(t), strings.Count(log.String(), "shared token cache recovered")
	for i, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		_, cold := newToken(t, store, name)
		began := awake.Time()
		known(t, cache, cold)
		if took := awake.Time() - began; took > promise { // untuned: 5 s
			t.Errorf("cold token %d took %s with a frozen Redis", i, took)
		}
	}
	known(t, cache, warm)
	if s := cache.Stats(); s.SharedErrors == 0 {
		t.Errorf("nothing was counted: %+v", s)
	}
	// Before it was paused, it may have been slow and come back.
	if n := strings.Count(log.String(), "shared token cache failed"); n != recovered+1 {
		t.Errorf("logged %d times after %d recoveries:\n%s", n, recovered, log)
	}

	redis.Kill(t)
	_, cold := newToken(t, store, "killed")
	known(t, cache, cold)
	redis.Restart(t)
	eventually(t, func() bool {
		_, cold, err := store.CreateToken(t.Context(), "killed", "more")
		return err == nil && known(t, cache, cold.Reveal()).ProjectName == "killed" &&
			strings.Contains(log.String(), "shared token cache recovered")
	})
	if strings.Contains(log.String(), "lgb_") {
		t.Errorf("a token was logged:\n%s", log)
	}
}

func TestEntryOfARedisThatMissedARevocationIsNotUsed(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	token, value := newToken(t, store, "demo")
	redis := redistest.Start(t)
	shared := openShared(t, redis.URL())
	first := newCache(t, store, shared)
	follow(t, first)
	known(t, first, value) // Redis has it now

	redis.Pause(t)
	if err := store.DeleteToken(t.Context(), "demo", token.ID); err != nil {
		t.Fatal(err)
	}
	refusedInTime(t, first, value, time.Now())
	// What asked Redis to forget the token is gone with its connection.
	redis.Resume(t)
	entry := sharedEntry{AsOf: first.removed.Load() - 1, Grant: grant{TokenID: token.ID, ProjectName: "demo"}}
	eventually(t, func() bool {
		first.shared.store(t.Context(), mustDigest(t, value).ID(), entry)
		_, found, _ := first.shared.load(t.Context(), mustDigest(t, value).ID())
		return found
	})

	second := newCache(t, store, shared)
	follow(t, second)
	for _, cache := range []*Cache{first, second} {
		if !isUnknown(t, cache, value) {
			t.Error("an old entry of Redis was used")
		}
	}
}

func TestSharedEntryOfAnotherRecordIsNotUsed(t *testing.T) {
	t.Parallel()
	shared := openShared(t, redistest.Start(t).URL())
	old := newStore(t)
	_, value := newToken(t, old, "demo")
	cache := newCache(t, old, shared)
	follow(t, cache)
	known(t, cache, value)

	again := newStore(t)
	newToken(t, again, "demo") // so that both records got as far
	fresh := newCache(t, again, shared)
	follow(t, fresh)
	if !isUnknown(t, fresh, value) {
		t.Error("a token of an earlier record was accepted")
	}
}

func BenchmarkAuthenticate(b *testing.B) {
	store := newStore(b)
	_, value := newToken(b, store, "demo")
	cache := newCache(b, store, NewMemoryShared())
	follow(b, cache)
	known(b, cache, value)
	unknown := New().Reveal()
	run := func(name, token string) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					_, _ = cache.Authenticate(context.Background(), token)
				}
			})
		})
	}
	run("known", value)
	run("unknown", unknown)
	run("malformed", value[1:])
	if s := cache.Stats(); s.Lookups > 4 {
		b.Errorf("the cache was not warm: %+v", s)
	}
}

func BenchmarkLookUp(b *testing.B) {
	for _, layer := range []string{"record", "redis"} {
		b.Run(layer, func(b *testing.B) {
			store := newStore(b)
			_, value := newToken(b, store, "demo")
			var shared Shared
			if layer == "redis" {
				shared = openShared(b, redistest.Start(b).URL())
			}
			cache := newCache(b, store, shared)
			follow(b, cache)
			known(b, cache, value)
			id := mustDigest(b, value).ID()
			for b.Loop() {
				cache.known.Invalidate(id)
				known(b, cache, value)
			}
		})
	}
}
