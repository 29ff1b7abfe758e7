package token

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	logboomredis "github.com/logboom/logboom/pkg/redis"
	"github.com/logboom/logboom/pkg/redis/redistest"
)

// sharedUnderTest is one implementation, and how time passes for it.
type sharedUnderTest struct {
	shared Shared
	pass   func(time.Duration)
}

func openShared(t testing.TB, address string) *RedisShared {
	t.Helper()
	client, err := logboomredis.Open(address, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return NewRedisShared(client)
}

// openPatient waits for a slow server: these tests are not about speed.
func openPatient(t testing.TB, address string) *RedisShared {
	t.Helper()
	options, err := redis.ParseURL(address)
	if err != nil {
		t.Fatal(err)
	}
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout, options.PoolTimeout = patience, patience, patience, patience
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return NewRedisShared(client)
}

var sharedImplementations = map[string]func(t testing.TB) sharedUnderTest{
	"memory": func(testing.TB) sharedUnderTest {
		m := NewMemoryShared()
		var offset time.Duration
		m.now = func() time.Time { return time.Now().Add(offset) }
		return sharedUnderTest{m, func(d time.Duration) { offset += d }}
	},
	"miniredis": func(t testing.TB) sharedUnderTest {
		server := miniredis.RunT(t)
		return sharedUnderTest{openPatient(t, "redis://"+server.Addr()+"/0"), server.FastForward}
	},
	"redis": func(t testing.TB) sharedUnderTest {
		shared := openPatient(t, redistest.Start(t).URL())
		return sharedUnderTest{shared, func(d time.Duration) {
			timer := time.NewTimer(d) // the real clock cannot be put forward
			defer timer.Stop()
			<-timer.C
		}}
	},
}

var sharedCases = map[string]func(t *testing.T, s sharedUnderTest){
	"what was not stored is a miss": func(t *testing.T, s sharedUnderTest) {
		if _, err := s.shared.Load(t.Context(), "t:none"); !errors.Is(err, ErrMiss) {
			t.Error(err)
		}
	},
	"what was stored is loaded": func(t *testing.T, s sharedUnderTest) {
		for _, value := range []string{"", "plain", "\x00\xff\r\n", string(make([]byte, 16<<10))} {
			if err := s.shared.Store(t.Context(), "t:a", []byte(value), time.Minute); err != nil {
				t.Fatal(err)
			}
			if got, err := s.shared.Load(t.Context(), "t:a"); err != nil || string(got) != value {
				t.Errorf("%d bytes of %d: %v", len(got), len(value), err)
			}
		}
	},
	"what was dropped is a miss": func(t *testing.T, s sharedUnderTest) {
		for _, key := range []string{"t:b", "t:c", "t:d"} {
			if err := s.shared.Store(t.Context(), key, []byte(key), time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.shared.Drop(t.Context(), "t:b", "t:missing", "t:c"); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"t:b", "t:c"} {
			if _, err := s.shared.Load(t.Context(), key); !errors.Is(err, ErrMiss) {
				t.Errorf("%s: %v", key, err)
			}
		}
		if got, err := s.shared.Load(t.Context(), "t:d"); err != nil || string(got) != "t:d" {
			t.Errorf("the other one: %q: %v", got, err)
		}
	},
	"what is older than its time is a miss": func(t *testing.T, s sharedUnderTest) {
		if err := s.shared.Store(t.Context(), "t:e", []byte("old"), 20*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		s.pass(40 * time.Millisecond)
		if _, err := s.shared.Load(t.Context(), "t:e"); !errors.Is(err, ErrMiss) {
			t.Error(err)
		}
	},
	"many may use it at once": func(t *testing.T, s sharedUnderTest) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var callers sync.WaitGroup
		for i := range 8 {
			callers.Go(func() {
				key := fmt.Sprintf("t:many:%d", i)
				for range 50 {
					if err := s.shared.Store(ctx, key, []byte(key), time.Minute); err != nil {
						t.Error(err)
					}
					if got, err := s.shared.Load(ctx, key); err != nil || string(got) != key {
						t.Errorf("%q: %v", got, err)
					}
				}
			})
		}
		callers.Wait()
	},
}

func TestSharedConforms(t *testing.T) {
	t.Parallel()
	for name, open := range sharedImplementations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			under := open(t)
			for name, check := range sharedCases {
				t.Run(name, func(t *testing.T) { check(t, under) })
			}
		})
	}
}

func TestSharedEntryIsUsedOnlyIfNothingWasRemovedSince(t *testing.T) {
	t.Parallel()
	id := mustDigest(t, New().Reveal()).ID()
	entry := sharedEntry{AsOf: 10, Grant: grant{TokenID: id.String()}}
	for _, c := range []struct {
		removed, seen uint64
		want          bool
	}{
		{10, 10, true}, {9, 12, true}, {0, 10, true},
		{11, 12, false}, // something went after it was read
		{4, 9, false},   // it is from a later record than there is
	} {
		if got := entry.isCurrent(id, c.removed, c.seen); got != c.want {
			t.Errorf("removed %d, seen %d: %v", c.removed, c.seen, got)
		}
	}
	if entry.isCurrent(mustDigest(t, New().Reveal()).ID(), 10, 10) {
		t.Error("another token's entry was used")
	}
}
