package quota

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/logboom/logboom/pkg/leaktest"
	"github.com/logboom/logboom/pkg/redis/redistest"
)

func TestMain(m *testing.M) {
	runAsSpender() // if a test has started this binary as another process
	leaktest.Main(m)
}

// clock is a clock that tests set.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

// noon returns a clock in the middle of every project's month.
func noon() *clock { return &clock{now: time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)} }

// ticking returns a clock that runs from noon, far from the end of any window of
// loadProject.
func ticking() func() time.Time {
	began, base := time.Now(), noon().Now()
	return func() time.Time { return base.Add(time.Since(began)) }
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

// patient bounds what must happen, no matter how fast, because test machines can be
// busy or stand still for seconds.
const patient = time.Minute

// connect returns a client with production's bounds and this timeout.
func connect(t testing.TB, address string, timeout time.Duration) *redis.Client {
	t.Helper()
	options, err := bounded(address, timeout)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func bounded(address string, timeout time.Duration) (*redis.Options, error) {
	options, err := redis.ParseURL(address)
	if err != nil {
		return nil, err
	}
	options.DialTimeout = 2 * timeout
	options.DialerRetries = 1
	options.ReadTimeout, options.WriteTimeout, options.PoolTimeout = timeout, timeout, timeout
	options.MaxRetries = -1
	options.ContextTimeoutEnabled = true
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return options, nil
}

// patientRedis returns a limiter that waits for a slow machine.
func patientRedis(t testing.TB, server *redistest.Server, config Config) *Redis {
	t.Helper()
	return newPatient(connect(t, server.URL(), patient), config)
}

func newPatient(client redis.UniversalClient, config Config) *Redis {
	config.Timeout = patient
	r := NewRedis(client, config)
	r.releaseTimeout = patient
	return r
}

// start runs the limiter until stop is called, or the test ends.
func start(t testing.TB, l Limiter) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1) // one: Run returns once, even if the test does not wait
	go func() { done <- l.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// eventually waits until the condition is true.
func eventually(t testing.TB, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(patient)
	defer late.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-late.C:
			t.Fatalf("the condition was not true within %s", patient)
		}
	}
}

// accepted reports whether a batch was accepted. Any error but *Exceeded fails the test.
func accepted(t testing.TB, l Limiter, project string, limits Limits, records int, bytes int64) bool {
	t.Helper()
	_, err := l.Charge(t.Context(), project, limits, records, bytes)
	return !isExceeded(t, err)
}

func isExceeded(t testing.TB, err error) bool {
	t.Helper()
	var e *Exceeded
	if err != nil && !errors.As(err, &e) {
		t.Fatalf("the error is not *Exceeded: %v", err)
	}
	if e != nil && (e.RetryAfter < time.Second || e.RetryAfter%time.Second != 0 || e.Reset.IsZero() || e.Limit <= 0) {
		t.Fatalf("%+v", e)
	}
	return e != nil
}

// chargeAll charges batches of one size until one is refused, and returns the number
// of accepted records.
func chargeAll(t testing.TB, l Limiter, project string, limits Limits, records int, most int) (total int) {
	t.Helper()
	for total <= most && accepted(t, l, project, limits, records, int64(records)) {
		total += records
	}
	return total
}
