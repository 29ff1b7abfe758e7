package project

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// The bounds of one Redis operation. With the client's defaults a frozen
// server costs 5 s and a closed port 1.9 s (measured).
const (
	redisDialTimeout = 100 * time.Millisecond
	redisTimeout     = 50 * time.Millisecond
)

// OpenRedis makes a client for an address such as redis://host:6379/0 whose
// operations are over within 50 ms, or at once while the server is known to be
// out of order. It does not connect. An error does not show the address, which
// may hold a password. The caller closes the client.
func OpenRedis(address string) (*redis.Client, error) {
	options, err := redis.ParseURL(address)
	if err != nil {
		return nil, errors.New("redis address: must be such as redis://user:password@host:6379/0")
	}
	options.DialTimeout = redisDialTimeout
	options.DialerRetries = 1
	options.ReadTimeout = redisTimeout
	options.WriteTimeout = redisTimeout
	options.PoolTimeout = redisTimeout
	options.MaxRetries = -1
	options.ContextTimeoutEnabled = true
	options.Limiter = newBreaker()
	// Redis Cloud's notices of maintenance: a handshake on each connection that
	// other servers refuse.
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(options), nil
}

var errBreakerOpen = errors.New("redis is left alone for a moment: it did not answer")

// When the breaker opens, and for how long.
const (
	breakerFailures = 5
	breakerPause    = time.Second
)

// breaker is a redis.Limiter that refuses operations at once after several in
// a row failed. Each second it lets them through again until the first one
// fails, which takes 50 ms. Letting through just one would not do: where that
// one needs a new connection, its handshake asks the limiter as well.
type breaker struct {
	now func() time.Time

	mu       sync.Mutex
	failures int       // in a row
	nextTry  time.Time // while open
}

func newBreaker() *breaker { return &breaker{now: time.Now} }

// Allow implements redis.Limiter.
func (b *breaker) Allow() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures >= breakerFailures && b.now().Before(b.nextTry) {
		return errBreakerOpen
	}
	return nil
}

// ReportResult implements redis.Limiter.
func (b *breaker) ReportResult(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case isAnswer(err):
		b.failures = 0
	case errors.Is(err, context.Canceled):
		// The caller left: that says nothing about the server.
	default:
		b.failures++
		b.nextTry = b.now().Add(breakerPause)
	}
}

// isAnswer tells whether the server answered, be it with an error.
func isAnswer(err error) bool {
	var reply redis.Error
	return err == nil || errors.As(err, &reply)
}
