package token

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/embedded/natstest"
)

// uses is a record that collects uses, or fails.
type uses struct {
	mu    sync.Mutex
	got   []Use
	calls int
	fails bool
}

func (u *uses) RecordUses(_ context.Context, got []Use) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.calls++
	if u.fails {
		return errors.New("no record")
	}
	u.got = append(u.got, got...)
	return nil
}

func (u *uses) fail(fails bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.fails = fails
}

// taken returns the uses that were stored since the last call.
func (u *uses) taken() []Use {
	u.mu.Lock()
	defer u.mu.Unlock()
	got := u.got
	u.got = nil
	return got
}

// recordIn runs a recorder in a bubble with a clock of its own.
func recordIn(t *testing.T, test func(t *testing.T, recorder *useRecorder, record *uses, log *sink)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		record, log := &uses{}, &sink{}
		recorder := newUseRecorder(record.RecordUses, newHealth(slog.New(slog.NewTextHandler(log, nil)), "uses"))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1) // run's answer, so that it never waits for the test
		go func() { done <- recorder.run(ctx) }()
		test(t, recorder, record, log)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestUseOfATokenIsStoredSeldom(t *testing.T) {
	recordIn(t, func(t *testing.T, recorder *useRecorder, record *uses, _ *sink) {
		for range 600 { // ten times as long as there is between two
			recorder.record(Use{"p~1", "busy", time.Now()})
			time.Sleep(useEvery / 60)
		}
		synctest.Wait()
		if n := len(record.taken()); n < 9 || n > 11 {
			t.Errorf("stored %d times", n)
		}
		time.Sleep(2 * useEvery)
		synctest.Wait()
		if len(recorder.stored) != 0 {
			t.Errorf("%d uses are kept of a token that is not used any more", len(recorder.stored))
		}
	})
}

func TestFirstUseOfATokenIsStoredSoon(t *testing.T) {
	recordIn(t, func(t *testing.T, recorder *useRecorder, record *uses, _ *sink) {
		time.Sleep(time.Hour)
		use := Use{"p~1", "new", time.Now()}
		recorder.record(use)
		time.Sleep(usePause)
		synctest.Wait()
		if got := record.taken(); len(got) != 1 || got[0] != use {
			t.Errorf("%+v", got)
		}
		if record.calls != 1 {
			t.Errorf("stored %d times, mostly nothing", record.calls)
		}
	})
}

func TestUsesStayPendingWhileTheRecordFails(t *testing.T) {
	recordIn(t, func(t *testing.T, recorder *useRecorder, record *uses, log *sink) {
		record.fail(true)
		for i := range 10 {
			recorder.record(Use{"p~1", fmt.Sprint(i), time.Now()})
			time.Sleep(10 * usePause)
		}
		record.fail(false)
		time.Sleep(2 * usePause)
		synctest.Wait()
		if n := len(record.taken()); n != 10 {
			t.Errorf("%d of 10 were stored", n)
		}
		if strings.Count(log.String(), "uses failed") != 1 || strings.Count(log.String(), "uses recovered") != 1 {
			t.Errorf("logged:\n%s", log)
		}
	})
}

func TestPendingUsesAreStoredAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		record := &uses{}
		recorder := newUseRecorder(record.RecordUses, newHealth(slog.New(slog.DiscardHandler), "uses"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		recorder.record(Use{"p~1", "t", time.Now()})
		if err := recorder.run(ctx); err != nil || len(record.taken()) != 1 {
			t.Errorf("nothing was stored: %v", err)
		}
	})
}

func TestRecordingAUseNeverWaitsAndIsBounded(t *testing.T) {
	t.Parallel()
	recorder := newUseRecorder((&uses{fails: true}).RecordUses, newHealth(slog.New(slog.DiscardHandler), "uses"))
	for i := range maxPendingUses + 10 { // nothing stores them
		if room := recorder.record(Use{"p~1", fmt.Sprint(i), time.Now()}); room != (i < maxPendingUses) {
			t.Fatalf("use %d: room %v", i, room)
		}
	}
	if n := len(recorder.pending); n != maxPendingUses || recorder.dropped.Load() != 10 {
		t.Errorf("%d are pending, %d were dropped", n, recorder.dropped.Load())
	}
}

func TestTokensAreListedWithTheirLastUse(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	used, value := newToken(t, store, "my.shop")
	if _, _, err := store.CreateToken(t.Context(), "my.shop", "unused"); err != nil {
		t.Fatal(err)
	}
	cache := newCache(t, store, NewMemoryShared())
	before := time.Now().UTC().Truncate(time.Second)
	known(t, cache, value)
	ended, end := context.WithCancel(t.Context())
	end()
	var list []Token
	eventually(t, func() bool { // what cannot be stored in time stays pending
		if err := cache.Run(ended); err != nil {
			t.Fatal(err)
		}
		var err error
		if list, err = store.Tokens(t.Context(), "my.shop"); err != nil || len(list) != 2 || list[0].ID != used.ID {
			t.Fatalf("%+v: %v", list, err)
		}
		return !list[0].LastUsed.IsZero()
	})
	if at := list[0].LastUsed; at.Before(before) || at.After(time.Now().UTC()) {
		t.Errorf("used at %s, want after %s", at, before)
	}
	if !list[1].LastUsed.IsZero() {
		t.Errorf("an unused token: %s", list[1].LastUsed)
	}
}

func TestStoredUsesOnlyMoveForward(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, embedded.NATSConfig{DataDir: t.TempDir()})
	store := connect(t, server.URL())
	token, _ := newToken(t, store, "demo")
	latest := time.Now().UTC().Truncate(time.Second)
	var callers sync.WaitGroup
	for i := range 8 { // eight processes at once
		process := connect(t, server.URL())
		callers.Go(func() {
			use := Use{token.ProjectID, token.ID, latest.Add(-time.Duration(i) * time.Minute)}
			other := Use{token.ProjectID, fmt.Sprintf("%032x", i), latest}
			if err := process.RecordUses(t.Context(), []Use{use, other}); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	var document usesDocument
	if _, err := store.uses.Load(t.Context(), usesKey(token.ProjectID), &document); err != nil || len(document.Tokens) != 9 {
		t.Errorf("%d tokens are kept: %v", len(document.Tokens), err)
	}
	list, err := store.Tokens(t.Context(), "demo")
	if err != nil || !list[0].LastUsed.Equal(latest) {
		t.Errorf("last used %s, want %s: %v", list[0].LastUsed, latest, err)
	}
}

func TestUsesOfDeletedTokensAreDropped(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	token, _ := newToken(t, store, "demo")
	uses := make([]Use, 2*maxTokens)
	for i := range uses {
		uses[i] = Use{token.ProjectID, fmt.Sprintf("%032x", i), time.Unix(1_800_000_000+int64(i), 0)}
	}
	if err := store.RecordUses(t.Context(), uses); err != nil { // also: fits the bucket
		t.Fatal(err)
	}
	var document usesDocument
	if _, err := store.uses.Load(t.Context(), usesKey(token.ProjectID), &document); err != nil {
		t.Fatal(err)
	}
	_, oldest := document.Tokens[uses[0].TokenID]
	_, newest := document.Tokens[uses[len(uses)-1].TokenID]
	if len(document.Tokens) != maxTokens || oldest || !newest {
		t.Errorf("%d are kept, the oldest %v, the newest %v", len(document.Tokens), oldest, newest)
	}
}

func TestUseOfACachedTokenIsRecordedSeldom(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	_, value := newToken(t, store, "demo")
	cache := newCache(t, store, nil)
	stopClock(cache)
	known(t, cache, value)
	id := mustDigest(t, value).ID()
	recorded := func() time.Time { return cache.uses.pending[id.String()].At }
	first := recorded()
	if first.IsZero() {
		t.Error("the use was not recorded")
	}
	for range 100 {
		known(t, cache, value)
	}
	if recorded() != first {
		t.Error("the use was recorded again")
	}
	warm, _ := cache.known.GetIfPresent(id)
	cache.recordUse(warm, cache.now()+useEvery)
	second := recorded()
	if !second.After(first) {
		t.Error("the use was not recorded again a while later")
	}
	cache.recordUse(warm, cache.now()+useEvery)
	if recorded() != second {
		t.Error("the use was recorded twice a while later")
	}
}
