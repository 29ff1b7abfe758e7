package session

import (
	"fmt"
	"net/netip"
	"sync"
	"time"
)

// How often somebody may try to sign in, within limitWindow. The counts are a
// process's own.
const (
	triesPerAccount = 5
	triesPerAddress = 20
	limitWindow     = time.Minute
)

// maxLimited bounds the accounts and addresses that are counted at once: some
// 3 MiB. Beyond, the one that was quiet for longest is forgotten.
const maxLimited = 10_000

// ThrottledError says that there were too many tries, and when the next may be.
type ThrottledError struct {
	RetryAfter time.Duration
}

func (e *ThrottledError) Error() string {
	return fmt.Sprintf("too many tries: wait %d seconds", int(e.RetryAfter.Round(time.Second)/time.Second))
}

// limiter counts tries by key over a sliding window.
type limiter struct {
	now func() time.Time

	mu    sync.Mutex
	tries map[string][]time.Time // the oldest first, none older than the window
}

func newLimiter() *limiter {
	return &limiter{now: time.Now, tries: map[string][]time.Time{}}
}

// take counts one try; a ThrottledError where there were most of them already.
func (l *limiter) take(key string, most int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	recent := after(l.tries[key], now.Add(-limitWindow))
	if len(recent) >= most {
		l.tries[key] = recent
		return &ThrottledError{max(time.Second, recent[0].Add(limitWindow).Sub(now))}
	}
	if _, known := l.tries[key]; !known {
		l.makeRoomLocked(now)
	}
	l.tries[key] = append(recent, now)
	return nil
}

// giveBack takes the newest try back: it was a good one.
func (l *limiter) giveBack(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.tries[key]); n > 0 {
		l.tries[key] = l.tries[key][:n-1]
	}
}

// makeRoomLocked forgets what is older than the window, or the quietest key
// where nothing is.
func (l *limiter) makeRoomLocked(now time.Time) {
	if len(l.tries) < maxLimited {
		return
	}
	quietest, since := "", now
	for key, tries := range l.tries {
		tries = after(tries, now.Add(-limitWindow))
		if len(tries) == 0 {
			delete(l.tries, key)
			continue
		}
		if last := tries[len(tries)-1]; last.Before(since) || quietest == "" {
			quietest, since = key, last
		}
	}
	if len(l.tries) >= maxLimited {
		delete(l.tries, quietest)
	}
}

// after drops the times up to the bound.
func after(tries []time.Time, bound time.Time) []time.Time {
	for len(tries) > 0 && !tries[0].After(bound) {
		tries = tries[1:]
	}
	return tries
}

// network is what is counted of an address: all of IPv4's, and the half of
// IPv6's that a provider gives to one customer.
func network(address string) string {
	parsed, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	parsed = parsed.Unmap()
	if parsed.Is4() {
		return parsed.String()
	}
	prefix, err := parsed.WithZone("").Prefix(64)
	if err != nil {
		return address
	}
	return prefix.String()
}
