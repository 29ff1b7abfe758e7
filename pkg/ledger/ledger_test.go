package ledger_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"

	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/stream/streamtest"
)

func TestLedgerPassesAnIntentToTheNextOwner(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	l := q.ledger()
	p := q.takeOver(l)
	if p.Epoch != 1 || p.Committed != 0 || p.Intent != nil {
		t.Fatalf("a new ledger gave %+v", p)
	}
	p, err := l.Intend(q.Ctx(), reader, p, ledger.Intent{From: 1, To: 10, Hash: "abc"})
	if err != nil {
		t.Fatal(err)
	}
	next := q.takeOver(l)
	if next.Epoch != 2 || next.Intent == nil || next.Intent.From != 1 || next.Intent.To != 10 || next.Intent.Hash != "abc" {
		t.Fatalf("the next owner got %+v", next)
	}
	if _, err := l.Commit(q.Ctx(), reader, p, 10, time.Time{}); !errors.Is(err, ledger.ErrFenced) {
		t.Errorf("the owner before got %v, want ErrFenced", err)
	}
	if next, err = l.Commit(q.Ctx(), reader, next, 10, time.Time{}); err != nil || next.Committed != 10 || next.Intent != nil {
		t.Errorf("got %+v, %v", next, err)
	}
	ctx := q.Ctx()
	positions, err := streamtest.Answered(ctx, func() (map[string]ledger.Position, error) { return l.Positions(ctx) })
	if got := positions[reader]; err != nil || len(positions) != 1 || got.Committed != 10 || got.Epoch != 2 {
		t.Errorf("positions are %+v, %v", positions, err)
	}
}

func TestLedgerKeepsTheWholeIntentAndWhenItWasCommitted(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	l := q.ledger()
	in := ledger.Intent{
		From: 1, To: 10, ReceivedMin: 5, ReceivedMax: 7, Want: map[string]uint64{"20261121": 3}, Hash: "abc", Attempt: 2, Schema: 1, Dead: "incorrect_data",
	}
	if _, err := l.Intend(q.Ctx(), reader, q.takeOver(l), in); err != nil {
		t.Fatal(err)
	}
	p := q.takeOver(l)
	if got := *p.Intent; fmt.Sprint(got) != fmt.Sprint(in) {
		t.Errorf("got the intent %+v, want %+v", got, in)
	}
	in.Attempt = 3
	p, err := l.Intend(q.Ctx(), reader, p, in) // in place of itself
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1_800_000_000, 123)
	if _, err := l.Commit(q.Ctx(), reader, p, 10, at); err != nil {
		t.Fatal(err)
	}
	if p = q.takeOver(l); p.Intent != nil || !p.CommittedAt.Equal(at) {
		t.Errorf("after the commit: %+v", p)
	}
}

func TestLedgerRefusesStepsThatSkipOrGoBack(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	l := q.ledger()
	p := q.takeOver(l)
	p, err := l.Commit(q.Ctx(), reader, p, 10, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range []ledger.Intent{{From: 12, To: 20}, {From: 10, To: 20}, {From: 11, To: 10}} {
		if _, err := l.Intend(q.Ctx(), reader, p, in); err == nil {
			t.Errorf("intent %+v after 10 was accepted", in)
		}
	}
	if p, err = l.Intend(q.Ctx(), reader, p, ledger.Intent{From: 11, To: 20}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Intend(q.Ctx(), reader, p, ledger.Intent{From: 11, To: 21}); err == nil {
		t.Error("an unfinished intent was widened")
	}
	if p, err = l.Intend(q.Ctx(), reader, p, ledger.Intent{From: 11, To: 15}); err != nil {
		t.Errorf("an unfinished intent could not be halved: %v", err)
	}
	for _, to := range []uint64{9, 14, 16} {
		if _, err := l.Commit(q.Ctx(), reader, p, to, time.Time{}); err == nil {
			t.Errorf("commit %d was accepted with an intent up to 15", to)
		}
	}
	if _, err := l.Commit(q.Ctx(), reader, ledger.Position{}, 1, time.Time{}); err == nil {
		t.Error("a commit without a take-over was accepted")
	}
}

func TestLedgerOfManyOwnersAcceptsOneStepAtATime(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	var unanswered lineCount
	l, err := ledger.Open(q.Ctx(), q.JS, 1, slog.New(slog.NewTextHandler(&unanswered, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		t.Fatal(err)
	}
	const owners, steps = 8, 15
	var committed atomic.Uint64
	epochs := make(chan uint64, owners*steps)
	var running sync.WaitGroup
	for range owners {
		running.Go(func() {
			for range steps {
				p, err := l.TakeOver(q.Ctx(), reader)
				if err != nil {
					t.Error(err)
					return
				}
				epochs <- p.Epoch
				if _, err = l.Commit(q.Ctx(), reader, p, p.Committed+1, time.Time{}); err == nil {
					committed.Add(1)
				} else if !errors.Is(err, ledger.ErrFenced) {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	close(epochs)
	seen := make(map[uint64]bool)
	for epoch := range epochs {
		if seen[epoch] {
			t.Errorf("two owners have epoch %d", epoch)
		}
		seen[epoch] = true
	}
	// A write that was not answered in time may be stored, and its owner fenced,
	// because another took over before the owner could confirm it.
	p, most := q.takeOver(l), unanswered.n.Load()
	if over := p.Epoch - (owners*steps + 1); over > most {
		t.Errorf("ends at %+v, want epoch %d and at most %d more", p, owners*steps+1, most)
	}
	if over := p.Committed - committed.Load(); over > most {
		t.Errorf("ends at %+v, want %d committed and at most %d more", p, committed.Load(), most)
	}
}

// lineCount counts the log lines about writes without an answer.
type lineCount struct{ n atomic.Uint64 }

func (c *lineCount) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("ledger did not answer")) {
		c.n.Add(1)
	}
	return len(line), nil
}

// Compares the ledger with a model: whatever owners do in whatever order, only the
// last one to take over moves it, and it never goes back.
func TestLedgerFollowsItsModel(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	l := q.ledger()
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		key := fmt.Sprintf("w.RUN_%d", run)
		held := make([]ledger.Position, 3)
		var model ledger.Position
		owner := -1
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			who := rapid.IntRange(0, 2).Draw(rt, "who")
			var next ledger.Position
			var err error
			verb := rapid.SampledFrom([]string{"take", "intend", "commit"}).Draw(rt, "verb")
			switch {
			case verb == "take":
				next, err = l.TakeOver(q.Ctx(), key)
				model.Epoch++
				owner = who
			case held[who].Epoch == 0 || verb == "commit" && held[who].Intent == nil || verb == "intend" && held[who].Intent != nil:
				continue
			case verb == "intend":
				in := ledger.Intent{From: held[who].Committed + 1, To: held[who].Committed + 5}
				if next, err = l.Intend(q.Ctx(), key, held[who], in); who == owner {
					model.Intent = &in
				}
			default:
				if next, err = l.Commit(q.Ctx(), key, held[who], held[who].Intent.To, time.Time{}); who == owner {
					model.Committed, model.Intent = model.Committed+5, nil
				}
			}
			if who != owner {
				if !errors.Is(err, ledger.ErrFenced) {
					rt.Fatalf("%s by an owner of before: %v", verb, err)
				}
				continue
			}
			if err != nil || next.Epoch != model.Epoch || next.Committed != model.Committed || (next.Intent == nil) != (model.Intent == nil) {
				rt.Fatalf("%s gave %+v, %v; the model has %+v", verb, next, err, model)
			}
			held[who] = next
		}
	})
}

func TestLedgerConfirmsAWriteWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	between := streamtest.NewProxy(t, q.Server.Addr())
	l := q.ledgerOn(q.ConnectThrough(between))
	p := q.takeOver(l)
	between.Mute()
	done := make(chan error, 1)
	go func() {
		next, err := l.Commit(q.Ctx(), reader, p, 7, time.Time{})
		if err == nil {
			_, err = l.Commit(q.Ctx(), reader, next, 8, time.Time{}) // its revision is good
		}
		done <- err
	}()
	kv := q.bucket()
	q.WaitFor("the swap to land", func() bool {
		entry, err := kv.Get(q.Ctx(), reader)
		return err == nil && strings.Contains(string(entry.Value()), `"committed":7`)
	})
	between.Cut()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestLedgerWaitsForTheQueue(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	l := q.ledger()
	p := q.takeOver(l)
	q.Stop()
	ctx, cancel := context.WithTimeout(q.Ctx(), 100*time.Millisecond)
	defer cancel()
	if _, err := l.Commit(ctx, reader, p, 1, time.Time{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the context's error", err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := l.Commit(q.Ctx(), reader, p, 1, time.Time{})
		done <- err
	}()
	q.Start()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestLedgerKeepsUnknownFields(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	l := q.ledger()
	const newer = `{"epoch":4,"committed":10,"owner":"x","lease":{"until":5},"intent":{"from":11,"to":20,"hash":"h","want":{"2026-11-21":3}}}`
	if _, err := q.bucket().Put(q.Ctx(), reader, []byte(newer)); err != nil {
		t.Fatal(err)
	}
	p := q.takeOver(l)
	var have struct {
		Epoch  uint64
		Lease  map[string]int
		Intent struct{ Want map[string]int }
	}
	decode := func() {
		t.Helper()
		entry, err := q.bucket().Get(q.Ctx(), reader)
		if err != nil {
			t.Fatal(err)
		}
		have.Lease, have.Intent.Want = nil, nil
		if err := json.Unmarshal(entry.Value(), &have); err != nil {
			t.Fatal(err)
		}
	}
	if decode(); have.Epoch != 5 || have.Lease["until"] != 5 || have.Intent.Want["2026-11-21"] != 3 {
		t.Errorf("after the take-over: %+v", have)
	}
	if _, err := l.Commit(q.Ctx(), reader, p, 20, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if decode(); have.Lease["until"] != 5 || have.Intent.Want != nil {
		t.Errorf("after the commit: %+v", have)
	}
}

func TestLedgerReportsABadOrDeletedEntry(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	l := q.ledger()
	if _, err := q.bucket().Put(q.Ctx(), "w.BAD", []byte("not json")); err != nil {
		t.Fatal(err)
	}
	if _, err := l.TakeOver(q.Ctx(), "w.BAD"); err == nil || !strings.Contains(err.Error(), "w.BAD") {
		t.Errorf("a bad entry: %v", err)
	}
	if _, err := l.TakeOver(q.Ctx(), "not a key"); !errors.Is(err, jetstream.ErrInvalidKey) {
		t.Errorf("a bad key: %v", err)
	}
	p := q.takeOver(l)
	if err := q.bucket().Delete(q.Ctx(), reader); err != nil {
		t.Fatal(err)
	}
	for _, step := range []func() error{
		func() error { _, err := l.Commit(q.Ctx(), reader, p, 1, time.Time{}); return err },
		func() error { _, err := l.TakeOver(q.Ctx(), reader); return err },
	} {
		if err := step(); err == nil || !strings.Contains(err.Error(), "deleted") {
			t.Errorf("a deleted key: %v", err)
		}
	}
}
