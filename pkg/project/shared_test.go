package project

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/logboom/logboom/pkg/project/redistest"
)

// sharedUnderTest is one implementation, and how to make time pass for it.
type sharedUnderTest struct {
	shared Shared
	pass   func(time.Duration)
}

func openShared(t testing.TB, address string) *RedisShared {
	t.Helper()
	client, err := OpenRedis(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return NewRedisShared(client)
}

// openPatient waits for the server as long as it takes: what is stored is not
// about how fast.
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

func TestSharedEntryIsBelievedOnlyIfNothingWasRemovedSince(t *testing.T) {
	t.Parallel()
	id := mustDigest(t, knownToken).ID()
	entry := sharedEntry{AsOf: 10, Holding: holding{TokenID: id.String()}}
	for _, c := range []struct {
		removed, seen uint64
		want          bool
	}{
		{10, 10, true}, {9, 12, true}, {0, 10, true},
		{11, 12, false}, // something went after it was read
		{4, 9, false},   // it is from a later record than there is
	} {
		if got := entry.believable(id, c.removed, c.seen); got != c.want {
			t.Errorf("removed %d, seen %d: %v", c.removed, c.seen, got)
		}
	}
	if entry.believable(mustDigest(t, NewToken().Reveal()).ID(), 10, 10) {
		t.Error("another token's entry was believed")
	}
}

func TestFrozenRedisCostsLittleThenNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	shared := openShared(t, server.URL())
	eventually(t, func() bool {
		return shared.Store(t.Context(), "t:a", []byte("x"), time.Minute) == nil
	})
	server.Pause(t)
	awake := redistest.StartAwake(t)
	eventually(t, func() bool {
		began := awake.Time()
		_, err := shared.Load(t.Context(), "t:a")
		if err == nil || errors.Is(err, ErrMiss) {
			t.Fatalf("a frozen server answered: %v", err)
		}
		// Room for a busy machine: untuned it takes 5 s.
		if took := awake.Time() - began; took > time.Second {
			t.Errorf("took %s", took)
		}
		return errors.Is(err, errBreakerOpen)
	})
	server.Resume(t)
	eventually(t, func() bool {
		_, err := shared.Load(t.Context(), "t:a")
		return err == nil
	})
}

func TestClosedRedisPortIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	shared := openShared(t, "redis://"+address+"/0")
	awake := redistest.StartAwake(t)
	if err := shared.Drop(t.Context(), "t:a"); err == nil {
		t.Error("a closed port answered")
	}
	if took := awake.Time(); took > time.Second {
		t.Errorf("took %s", took)
	}
}

func TestBreakerOpensAfterFailuresInARowAndTriesAgain(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	b := &breaker{now: func() time.Time { return now }}
	broken := errors.New("i/o timeout")
	fail := func(times int) {
		for range times {
			if err := b.Allow(); err != nil {
				t.Fatal(err)
			}
			b.ReportResult(broken)
		}
	}
	fail(breakerFailures - 1)
	b.ReportResult(redis.Nil) // an answer
	b.ReportResult(context.Canceled)
	fail(breakerFailures)
	if err := b.Allow(); !errors.Is(err, errBreakerOpen) {
		t.Errorf("open: %v", err)
	}
	now = now.Add(breakerPause)
	fail(1)
	if err := b.Allow(); !errors.Is(err, errBreakerOpen) {
		t.Errorf("after a try that failed: %v", err)
	}
	now = now.Add(breakerPause)
	b.ReportResult(nil)
	fail(breakerFailures - 1)
	if err := b.Allow(); err != nil {
		t.Errorf("closed: %v", err)
	}
}
