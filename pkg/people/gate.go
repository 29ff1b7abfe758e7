package people

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/logboom/logboom/pkg/secret"
)

// How often a sign-in may fail within limitWindow. Each process counts for
// itself.
const (
	triesPerAccount = 5
	triesPerAddress = 20
	limitWindow     = time.Minute
)

const (
	// maxAccount bounds how much of a typed e-mail address is counted.
	maxAccount = 254
	// maxLimited bounds the accounts and addresses that are counted at once, to
	// about 3 MiB. Beyond it, the one without a try for the longest time is
	// forgotten.
	maxLimited = 10_000
)

// ThrottledError means that there were too many tries.
type ThrottledError struct {
	RetryAfter time.Duration // until the next try is allowed
}

func (e *ThrottledError) Error() string {
	return fmt.Sprintf("too many tries: wait %d seconds", int(e.RetryAfter.Round(time.Second)/time.Second))
}

// passwordStore checks and changes passwords; Store implements it.
type passwordStore interface {
	SignIn(ctx context.Context, email string, password secret.Value) (User, error)
	ChangePassword(ctx context.Context, email string, old, password secret.Value) (User, error)
}

// Gate checks passwords and limits how often somebody may guess.
type Gate struct {
	users passwordStore
	tries *limiter
}

// NewGate returns a gate for the users of a Store.
func NewGate(users passwordStore) *Gate {
	return &Gate{users: users, tries: newLimiter()}
}

// SignIn returns the user with the e-mail address and password. The errors are
// ErrCredentials, which does not say which of them is wrong, and ThrottledError.
// Only failures count, for the account and for the address of the client.
func (g *Gate) SignIn(ctx context.Context, email string, password secret.Value, address string) (User, error) {
	return g.limited(email, address, func() (User, error) { return g.users.SignIn(ctx, email, password) })
}

// ChangePassword replaces the user's password. Its failures count like those of
// SignIn, so that a stolen session does not help to guess the password.
func (g *Gate) ChangePassword(ctx context.Context, email string, old, password secret.Value, address string) (User, error) {
	return g.limited(email, address, func() (User, error) { return g.users.ChangePassword(ctx, email, old, password) })
}

// limited calls check unless there were too many tries, and counts a failure.
func (g *Gate) limited(email, address string, check func() (User, error)) (User, error) {
	email = strings.ToLower(strings.TrimSpace(email)) // an unknown account counts as well
	account := "for " + email[:min(len(email), maxAccount)]
	if err := g.Try(address); err != nil {
		return User{}, err
	}
	if err := g.tries.add(account, triesPerAccount); err != nil {
		return User{}, err
	}
	user, err := check()
	if err == nil {
		g.Passed(address)
		g.tries.undo(account)
	}
	return user, err
}

// Try counts a try of another kind from the client's address, such as a set-up
// code. It fails with a ThrottledError if there were too many.
func (g *Gate) Try(address string) error {
	return g.tries.add("from "+network(address), triesPerAddress)
}

// Passed removes the newest try from the address, because it succeeded.
func (g *Gate) Passed(address string) { g.tries.undo("from " + network(address)) }

// network returns the part of an address that is counted: all of an IPv4
// address, and the first half of an IPv6 address, which a provider assigns to
// one customer.
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

// limiter counts tries by key over a sliding window.
type limiter struct {
	now func() time.Time

	mu    sync.Mutex
	tries map[string][]time.Time // the oldest first, none older than the window
}

func newLimiter() *limiter {
	return &limiter{now: time.Now, tries: map[string][]time.Time{}}
}

// add counts a try, or returns a ThrottledError if there were limit tries.
func (l *limiter) add(key string, limit int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	recent := after(l.tries[key], now.Add(-limitWindow))
	if len(recent) >= limit {
		l.tries[key] = recent
		return &ThrottledError{max(time.Second, recent[0].Add(limitWindow).Sub(now))}
	}
	if _, known := l.tries[key]; !known {
		l.makeRoomLocked(now)
	}
	l.tries[key] = append(recent, now)
	return nil
}

// undo removes the newest try.
func (l *limiter) undo(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.tries[key]); n > 0 {
		l.tries[key] = l.tries[key][:n-1]
	}
}

// makeRoomLocked forgets the keys without a try in the window, or the key whose
// newest try is the oldest.
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

// after returns the times after the bound.
func after(tries []time.Time, bound time.Time) []time.Time {
	for len(tries) > 0 && !tries[0].After(bound) {
		tries = tries[1:]
	}
	return tries
}
