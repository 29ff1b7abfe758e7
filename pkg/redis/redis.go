// Package redis opens Logboom's connection to Redis with bounds that suit a
// cache: what is stored there can be rebuilt, so a server that is slow or down
// must cost a request little and soon nothing.
//
// The token cache and the quotas' counters share one client.
package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// The bounds of one operation. With the client's defaults a frozen server costs
// 5 s and a closed port 1.9 s (measured).
const (
	dialTimeout      = 100 * time.Millisecond
	operationTimeout = 50 * time.Millisecond
)

// Open returns a client for an address such as redis://host:6379/0. Each
// operation ends within 50 ms, or at once while the server is known to be down.
// Open does not connect. Its error does not contain the address, which may hold
// a password. The caller closes the client.
//
// The library has one logger for the whole process; Open sets it to logger, at
// debug level, because failures are counted and logged where Redis is used.
func Open(address string, logger *slog.Logger) (*goredis.Client, error) {
	options, err := goredis.ParseURL(address)
	if err != nil {
		return nil, errors.New("redis address: must look like redis://user:password@host:6379/0")
	}
	options.DialTimeout = dialTimeout
	options.DialerRetries = 1
	options.ReadTimeout = operationTimeout
	options.WriteTimeout = operationTimeout
	options.PoolTimeout = operationTimeout
	options.MaxRetries = -1
	options.ContextTimeoutEnabled = true
	options.Limiter = newBreaker()
	// Notifications of maintenance exist only in Redis Cloud. Other servers
	// refuse the handshake for them on every connection.
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	goredis.SetLogger(debugLogger{logger.With("engine", "redis")})
	return goredis.NewClient(options), nil
}

type debugLogger struct{ logger *slog.Logger }

func (l debugLogger) Printf(ctx context.Context, format string, v ...any) {
	l.logger.DebugContext(ctx, fmt.Sprintf(format, v...))
}

var errBreakerOpen = errors.New("redis did not answer; not asking it for a moment")

// When the breaker opens, and for how long.
const (
	breakerFailures = 5
	breakerPause    = time.Second
)

// breaker is a redis.Limiter that refuses operations at once after several
// failures in a row. Once a second it allows operations again until the first
// one fails, which costs 50 ms. Allowing exactly one operation does not work: if
// it needs a new connection, the handshake asks the limiter as well.
type breaker struct {
	now func() time.Time

	mu       sync.Mutex
	failures int       // in a row
	nextTry  time.Time // while the breaker is open
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
	var reply goredis.Error
	switch {
	case err == nil, errors.As(err, &reply): // the server answered, perhaps with an error
		b.failures = 0
	case errors.Is(err, context.Canceled):
		// The caller gave up, which says nothing about the server.
	default:
		b.failures++
		b.nextTry = b.now().Add(breakerPause)
	}
}
