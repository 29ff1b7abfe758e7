package redis

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/logboom/logboom/pkg/redis/redistest"
)

// patience bounds what has to happen on a machine that is busy.
const patience = time.Minute

func open(t *testing.T, address string) *goredis.Client {
	t.Helper()
	client, err := Open(address, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// eventually waits until the condition holds.
func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(patience)
	defer late.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-late.C:
			t.Fatalf("not within %s", patience)
		}
	}
}

func TestOpenDoesNotRepeatAPassword(t *testing.T) {
	t.Parallel()
	const canary = "canary-5e3f0c"
	_, err := Open("redis://:"+canary+"@host:x/%zz", slog.New(slog.DiscardHandler))
	if err == nil || strings.Contains(err.Error(), canary) {
		t.Errorf("no error, or one with the password: %v", err)
	}
}

func TestFrozenRedisCostsLittleThenNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := open(t, server.URL())
	eventually(t, func() bool {
		return client.Set(t.Context(), "t:a", "x", time.Minute).Err() == nil
	})
	server.Pause(t)
	awake := redistest.StartAwake(t)
	eventually(t, func() bool {
		began := awake.Time()
		err := client.Get(t.Context(), "t:a").Err()
		if err == nil || errors.Is(err, goredis.Nil) {
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
		err := client.Get(t.Context(), "t:a").Err()
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
	client := open(t, "redis://"+address+"/0")
	awake := redistest.StartAwake(t)
	if err := client.Unlink(t.Context(), "t:a").Err(); err == nil {
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
	b.ReportResult(goredis.Nil) // an answer
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
