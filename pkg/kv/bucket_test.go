package kv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// patience bounds every wait of these tests; usually none comes near it.
const patience = time.Minute

type document struct {
	Text string `json:"text"`
}

func newServer(t *testing.T) (*embedded.NATS, jetstream.JetStream) {
	t.Helper()
	server, err := embedded.StartNATS(t.Context(), embedded.NATSConfig{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	conn, err := nats.Connect(server.URL(), nats.Timeout(patience), nats.PingInterval(time.Hour), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	return server, js
}

func newBucket(t *testing.T) *Bucket {
	t.Helper()
	_, js := newServer(t)
	b, err := Open(t.Context(), js, Config{Name: "TEST", History: 3, MaxBytes: 16 << 20, MaxValueBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// must fails the test on an error.
func must[T any](t *testing.T) func(value T, err error) T {
	t.Helper()
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func TestBucketWritesOnlyInPlaceOfTheExpectedRevision(t *testing.T) {
	t.Parallel()
	b, ctx := newBucket(t), t.Context()
	if _, err := b.Get(ctx, "a.1"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a key that was never written: %v", err)
	}
	first := must[uint64](t)(b.Create(ctx, "a.1", document{"one"}))
	if _, err := b.Create(ctx, "a.1", document{"other"}); !errors.Is(err, ErrExists) || !errors.Is(err, ErrChanged) {
		t.Errorf("a second creation: %v", err)
	}
	second := must[uint64](t)(b.Swap(ctx, "a.1", document{"two"}, first))
	if _, err := b.Update(ctx, "a.1", document{"late"}, first); !errors.Is(err, ErrChanged) {
		t.Errorf("an update of an old revision: %v", err)
	}
	if err := b.Delete(ctx, "a.1", first); !errors.Is(err, ErrChanged) {
		t.Errorf("a deletion of an old revision: %v", err)
	}
	entry := must[Entry](t)(b.Get(ctx, "a.1"))
	var got document
	if err := entry.Decode(&got); err != nil || got.Text != "two" || entry.Revision != second || entry.Time.IsZero() {
		t.Errorf("read %+v: %v", entry, err)
	}
	if err := b.Delete(ctx, "a.1", second); err != nil {
		t.Fatal(err)
	}
	if entry, err := b.Get(ctx, "a.1"); !errors.Is(err, ErrNotFound) || !entry.Deleted || entry.Revision <= second {
		t.Errorf("a deleted key: %+v, %v", entry, err)
	}
	if _, err := b.Update(ctx, "a.1", document{"again"}, 0); !errors.Is(err, ErrChanged) {
		t.Errorf("an update of a deleted key: %v", err)
	}
	third := must[uint64](t)(b.Swap(ctx, "a.1", document{"again"}, 0))
	if revision := must[uint64](t)(b.Revision(ctx)); revision != third {
		t.Errorf("the last revision is %d, want %d", revision, third)
	}
	if _, err := b.Create(ctx, "not a key", 1); !errors.Is(err, ErrInvalidKey) || errors.Is(err, ErrUnavailable) {
		t.Errorf("a key with spaces: %v", err)
	}
}

func TestPurgedKeyLeavesNoMark(t *testing.T) {
	t.Parallel()
	b, ctx := newBucket(t), t.Context()
	must[uint64](t)(b.Put(ctx, "a", document{"one"}))
	if err := b.Purge(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if entry, err := b.Get(ctx, "a"); !errors.Is(err, ErrNotFound) || entry.Deleted {
		t.Errorf("after the purge: %+v, %v", entry, err)
	}
	if _, err := b.Update(ctx, "a", document{"two"}, 0); err != nil {
		t.Errorf("a write as if there never had been one: %v", err)
	}
}

// silentKV writes and reports that it got no answer.
type silentKV struct{ jetstream.KeyValue }

func (s silentKV) Create(ctx context.Context, key string, value []byte, opts ...jetstream.KVCreateOpt) (uint64, error) {
	_, _ = s.KeyValue.Create(ctx, key, value, opts...)
	return 0, context.DeadlineExceeded
}

func (s silentKV) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	_, _ = s.KeyValue.Update(ctx, key, value, revision)
	return 0, context.DeadlineExceeded
}

func TestWriteWhoseAnswerWasLostIsConfirmedByReading(t *testing.T) {
	t.Parallel()
	b, ctx := newBucket(t), t.Context()
	silent := *b
	silent.kv = silentKV{b.kv}
	// On a busy machine the read may take too long as well. The same write is
	// made again then.
	written := func(write func() (uint64, error)) uint64 {
		for {
			revision, err := write()
			if err == nil {
				return revision
			}
			if !errors.Is(err, ErrUnavailable) {
				t.Fatal(err)
			}
		}
	}
	first := written(func() (uint64, error) { return silent.Create(ctx, "a", document{"one"}) })
	second := written(func() (uint64, error) { return silent.Update(ctx, "a", document{"two"}, first) })
	if entry := must[Entry](t)(b.Get(ctx, "a")); entry.Revision != second {
		t.Errorf("the write has revision %d, want %d", second, entry.Revision)
	}
	if again := must[uint64](t)(b.Update(ctx, "a", document{"two"}, first)); again != second {
		t.Errorf("the same write again has revision %d, want %d", again, second)
	}
	if _, err := silent.Create(ctx, "a", document{"three"}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a write that did not happen: %v", err)
	}
}

func TestOneOfManyWritersWins(t *testing.T) {
	t.Parallel()
	b, ctx := newBucket(t), t.Context()
	var won atomic.Int32
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			_, err := b.Create(ctx, "a", document{fmt.Sprint(i)})
			if err == nil {
				won.Add(1)
			} else if !errors.Is(err, ErrExists) {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	if won.Load() != 1 {
		t.Errorf("%d writers created the key", won.Load())
	}
}

func keys(entries []Entry) string {
	var all []string
	for _, e := range entries {
		all = append(all, e.Key)
	}
	return strings.Join(all, " ")
}

func TestListHasTheLivingKeysUnderTheFilters(t *testing.T) {
	t.Parallel()
	b, ctx := newBucket(t), t.Context()
	if list := must[[]Entry](t)(b.List(ctx)); len(list) != 0 {
		t.Errorf("an empty bucket lists %s", keys(list))
	}
	for _, key := range []string{"b.1", "a.2", "a.1", "a.3", "c.1"} {
		must[uint64](t)(b.Put(ctx, key, document{key}))
		must[uint64](t)(b.Put(ctx, key, document{key + " again"}))
	}
	if err := b.Delete(ctx, "a.3", 0); err != nil {
		t.Fatal(err)
	}
	for filters, want := range map[string]string{"": "a.1 a.2 b.1 c.1", "a.*": "a.1 a.2", "a.* c.>": "a.1 a.2 c.1", "d.*": ""} {
		if list := must[[]Entry](t)(b.List(ctx, strings.Fields(filters)...)); keys(list) != want {
			t.Errorf("%q lists %q, want %q", filters, keys(list), want)
		}
	}
}

func TestListWhileAKeyIsWrittenHasTheKey(t *testing.T) {
	t.Parallel()
	b, ctx := newBucket(t), t.Context()
	for i := range 20 {
		must[uint64](t)(b.Put(ctx, fmt.Sprintf("k.%d", i), document{"x"}))
	}
	writing, stop := context.WithCancel(ctx)
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 0; writing.Err() == nil; i++ {
			if _, err := b.Put(ctx, fmt.Sprintf("k.%d", i%20), document{fmt.Sprint(i)}); err != nil {
				t.Error(err)
			}
		}
	})
	for range 30 {
		if list := must[[]Entry](t)(b.List(ctx, "k.*")); len(list) != 20 {
			t.Errorf("listed %d keys of 20: %s", len(list), keys(list))
		}
	}
	stop()
	writer.Wait()
}

// update is what a watch reports of one key.
type update struct {
	jetstream.KeyValueEntry
	key       string
	revision  uint64
	behind    uint64
	operation jetstream.KeyValueOp
}

func (u update) Key() string                     { return u.key }
func (u update) Value() []byte                   { return []byte("{}") }
func (u update) Revision() uint64                { return u.revision }
func (u update) Created() time.Time              { return time.Time{} }
func (u update) Delta() uint64                   { return u.behind }
func (u update) Operation() jetstream.KeyValueOp { return u.operation }

func TestListingIsCompleteWhenNothingIsBehindItsEnd(t *testing.T) {
	t.Parallel()
	l := listing{}
	for i, step := range []struct {
		update   jetstream.KeyValueEntry
		complete bool
	}{
		{update{key: "a", revision: 1, behind: 2}, false},
		{update{key: "c", revision: 3, behind: 2}, false}, // b was written meanwhile, and is behind c now
		{nil, false},
		{update{key: "b", revision: 4, behind: 1}, false},
		{update{key: "c", revision: 5, operation: jetstream.KeyValuePurge}, true},
	} {
		if l.add(step.update); l.complete() != step.complete {
			t.Errorf("after step %d: complete is %v", i, l.complete())
		}
	}
	if len(l.entries) != 2 || l.entries["b"].Revision != 4 {
		t.Errorf("listed %+v", l.entries)
	}
}

// stallingKV has a first watch that reports nothing.
type stallingKV struct {
	jetstream.KeyValue
	watches *atomic.Int32
}

type stalledWatch struct{}

func (stalledWatch) Updates() <-chan jetstream.KeyValueEntry { return nil }
func (stalledWatch) Stop() error                             { return nil }

func (s stallingKV) WatchFiltered(ctx context.Context, keys []string, opts ...jetstream.WatchOpt) (jetstream.KeyWatcher, error) {
	if s.watches.Add(1) == 1 {
		return stalledWatch{}, nil
	}
	return s.KeyValue.WatchFiltered(ctx, keys, opts...)
}

func TestListThatStallsStartsAgain(t *testing.T) {
	t.Parallel()
	b, ctx := newBucket(t), t.Context()
	must[uint64](t)(b.Put(ctx, "a", document{"one"}))
	b.kv = stallingKV{b.kv, new(atomic.Int32)}
	if list := must[[]Entry](t)(b.List(ctx)); keys(list) != "a" {
		t.Errorf("listed %q", keys(list))
	}
}

func TestWatchReportsWritesAndDeletionsInOrder(t *testing.T) {
	t.Parallel()
	b, ctx := newBucket(t), t.Context()
	must[uint64](t)(b.Put(ctx, "before", document{"x"}))
	from := must[uint64](t)(b.Put(ctx, "a", document{"one"}))
	w := must[*Watcher](t)(b.Watch(ctx, from))
	defer w.Stop()
	must[uint64](t)(b.Put(ctx, "b", document{"two"}))
	if err := b.Delete(ctx, "b", 0); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a false", "b false", "b true"} {
		entry := must[Entry](t)(w.Next(ctx))
		if got := fmt.Sprint(entry.Key, " ", entry.Deleted); got != want {
			t.Errorf("reported %q, want %q", got, want)
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := w.Next(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("after the context ended: %v", err)
	}
}

func TestBucketThatCouldLoseKeysIsRefused(t *testing.T) {
	t.Parallel()
	_, js := newServer(t)
	for name, config := range map[string]jetstream.KeyValueConfig{
		"memory": {Storage: jetstream.MemoryStorage},
		"age":    {TTL: time.Hour},
	} {
		config.Bucket = strings.ToUpper(name)
		must[jetstream.KeyValue](t)(js.CreateKeyValue(t.Context(), config))
		if _, err := Open(t.Context(), js, Config{Name: config.Bucket}); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), config.Bucket) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Open(t.Context(), js, Config{Name: "AGE", MaxAge: time.Minute}); err != nil {
		t.Errorf("with an age of its own: %v", err)
	}
	if _, err := Find(t.Context(), js, "MISSING"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a bucket that does not exist: %v", err)
	}
}

func TestBucketThatAllowsDirectReadsIsReadFromItsLeader(t *testing.T) {
	t.Parallel()
	_, js := newServer(t)
	must[jetstream.KeyValue](t)(js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "TEST"}))
	b := must[*Bucket](t)(Open(t.Context(), js, Config{Name: "TEST"}))
	direct := make(chan *nats.Msg, 10)
	sub := must[*nats.Subscription](t)(js.Conn().ChanSubscribe("$JS.API.DIRECT.GET.>", direct))
	must[uint64](t)(b.Create(t.Context(), "a", document{"one"}))
	must[Entry](t)(b.Get(t.Context(), "a"))
	if err := js.Conn().FlushWithContext(t.Context()); err == nil && len(direct) > 0 {
		t.Errorf("%d direct reads", len(direct))
	}
	_ = sub.Unsubscribe()
}

func TestBucketWithoutAServerIsUnavailable(t *testing.T) {
	t.Parallel()
	server, js := newServer(t)
	b := must[*Bucket](t)(Open(t.Context(), js, Config{Name: "TEST"}))
	if err := server.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	for name, call := range map[string]func() error{
		"get":      func() error { _, err := b.Get(ctx, "a"); return err },
		"create":   func() error { _, err := b.Create(ctx, "a", 1); return err },
		"put":      func() error { _, err := b.Put(ctx, "a", 1); return err },
		"delete":   func() error { return b.Delete(ctx, "a", 1) },
		"list":     func() error { _, err := b.List(ctx); return err },
		"revision": func() error { _, err := b.Revision(ctx); return err },
	} {
		if err := call(); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// failing returns an error for the first look-ups of a stream.
type failing struct {
	jetstream.JetStream
	errors []error
}

func (f *failing) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	if len(f.errors) == 0 {
		return f.JetStream.Stream(ctx, name)
	}
	err := f.errors[0]
	f.errors = f.errors[1:]
	return nil, err
}

// A process may start before a server answers or while a leader is elected.
func TestOpenRetriesUntilTheServersAreReady(t *testing.T) {
	t.Parallel()
	_, js := newServer(t)
	f := &failing{js, []error{nats.ErrTimeout, nats.ErrNoResponders, &jetstream.APIError{Code: 503}, context.DeadlineExceeded}}
	if _, err := Open(t.Context(), f, Config{Name: "TEST"}); err != nil || len(f.errors) != 0 {
		t.Errorf("%d errors left, %v", len(f.errors), err)
	}
}

func TestOpenReturnsAPermanentErrorAtOnce(t *testing.T) {
	t.Parallel()
	_, js := newServer(t)
	f := &failing{js, []error{&jetstream.APIError{Code: 400}, nats.ErrTimeout}}
	if _, err := Open(t.Context(), f, Config{Name: "TEST"}); !errors.Is(err, ErrUnavailable) || len(f.errors) != 1 {
		t.Errorf("%d errors left, %v", len(f.errors), err)
	}
}
