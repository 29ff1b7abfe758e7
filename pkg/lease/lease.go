// Package lease shares units of work among the members of a service: the shards
// among writers, the partitions among notifiers.
//
// Leases decide who works on a unit. They never decide whether a write counts:
// the ledger's compare-and-swap does. It fences a member that was paused and still
// works on a unit that another member has claimed. A lease has no expiry time,
// because clocks of machines differ: a member counts as gone when its key has not
// changed for a while, as another member has seen it.
//
// The package also keeps the list of running processes (Presence).
package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nuid"

	"github.com/logboom/logboom/pkg/kv"
)

const (
	// MaxBeat is the longest time between two beats of a member.
	MaxBeat = 2 * time.Second
	// goneAfter is how long a member's key must be seen unchanged before the
	// member counts as gone: at least three beats.
	goneAfter = 6 * time.Second
	// maxPerBeat bounds what one beat adds to that time: an outage of the queue,
	// in which no member could beat, must not make all of them count as gone.
	maxPerBeat = 2 * time.Second
	// callTimeout bounds one request.
	callTimeout = 2 * time.Second
)

// Keys are the prefixes of the keys in the bucket of a service.
type Keys struct {
	Member string // such as "l.member."
	Claim  string // such as "l.claim."
}

// Leases are what a member may do. Member implements it.
type Leases interface {
	Beat(ctx context.Context) (View, error)
	Claim(ctx context.Context, unit string) (bool, error)
	Release(ctx context.Context, unit string) error
	Leave(ctx context.Context) error
}

// Member is one process of a service. Its methods may be called concurrently.
type Member struct {
	bucket *kv.Bucket
	keys   Keys
	log    *slog.Logger
	name   string

	mu      sync.Mutex
	beat    uint64
	seen    time.Time // of the last beat
	members map[string]member
	claims  map[string]claim
}

type member struct {
	revision  uint64
	unchanged time.Duration // since the revision was first seen
}

type claim struct {
	holder   string // empty: released
	revision uint64
}

// View is what a member saw at a beat.
type View struct {
	Self    string
	Members []string          // the living ones, sorted, with Self
	Holders map[string]string // units and the living members that hold them
}

// value is the value of both kinds of key.
type value struct {
	Holder string `json:"holder,omitempty"` // of a claim; empty: it was released
	Beat   uint64 `json:"beat,omitempty"`   // of a member
}

var validName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// NewMember returns a member of the service that keeps its leases in bucket
// under keys. An empty name stands for a new, random one. A member that starts
// again under its name holds at once what it held; two that run under one name
// take each other's work.
func NewMember(bucket *kv.Bucket, keys Keys, name string, logger *slog.Logger) (*Member, error) {
	if name == "" {
		name = nuid.Next()
	}
	if !validName.MatchString(name) {
		return nil, fmt.Errorf("member %.80q: give a name of at most 64 letters, digits, - and _", name)
	}
	return &Member{bucket: bucket, keys: keys, log: logger, name: name, members: map[string]member{}, claims: map[string]claim{}}, nil
}

// Beat announces that this member is alive and returns which others are, and who
// holds what. Call it at least every MaxBeat.
func (m *Member) Beat(ctx context.Context) (View, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 2*callTimeout)
	defer cancel()
	m.beat++
	if _, err := m.bucket.Put(ctx, m.keys.Member+m.name, value{Beat: m.beat}); err != nil {
		return View{}, fmt.Errorf("announce member: %w", err)
	}
	entries, err := m.bucket.List(ctx, m.keys.Member+">", m.keys.Claim+">")
	if err != nil {
		return View{}, fmt.Errorf("read leases: %w", err)
	}
	m.learn(entries, time.Now())
	return m.view(), nil
}

// learn records what a list showed at a time.
func (m *Member) learn(entries []kv.Entry, now time.Time) {
	passed := time.Duration(0)
	if !m.seen.IsZero() {
		passed = min(now.Sub(m.seen), maxPerBeat)
	}
	m.seen = now
	members, claims := map[string]member{}, map[string]claim{}
	for _, entry := range entries {
		if name, ok := strings.CutPrefix(entry.Key, m.keys.Member); ok {
			other := m.members[name]
			if other.revision == entry.Revision {
				other.unchanged += passed
			} else {
				other = member{revision: entry.Revision}
			}
			members[name] = other
			continue
		}
		var v value
		if err := json.Unmarshal(entry.Value, &v); err != nil {
			m.log.Warn("lease not understood, treated as free", "key", entry.Key, "err", err)
		}
		claims[strings.TrimPrefix(entry.Key, m.keys.Claim)] = claim{v.Holder, entry.Revision}
	}
	m.members, m.claims = members, claims
}

func (m *Member) view() View {
	v := View{Self: m.name, Holders: map[string]string{}}
	for name, other := range m.members {
		if name == m.name || other.unchanged < goneAfter {
			v.Members = append(v.Members, name)
		}
	}
	slices.Sort(v.Members)
	for unit, c := range m.claims {
		if slices.Contains(v.Members, c.holder) {
			v.Holders[unit] = c.holder
		}
	}
	return v
}

// Claim acquires a unit that was free at the last beat. It returns false if
// another member was faster. After an error the next beat shows who holds the
// unit.
func (m *Member) Claim(ctx context.Context, unit string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if holder := m.view().Holders[unit]; holder != "" {
		return holder == m.name, nil
	}
	return m.swap(ctx, unit, m.name)
}

// Release releases a unit that this member holds. If another member has claimed
// it meanwhile, Release does nothing.
func (m *Member) Release(ctx context.Context, unit string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.claims[unit].holder != m.name {
		return nil
	}
	_, err := m.swap(ctx, unit, "")
	return err
}

func (m *Member) swap(ctx context.Context, unit, holder string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	revision, err := m.bucket.Swap(ctx, m.keys.Claim+unit, value{Holder: holder}, m.claims[unit].revision)
	if errors.Is(err, kv.ErrChanged) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lease of %s: %w", unit, err)
	}
	m.claims[unit] = claim{holder, revision}
	return true, nil
}

// Leave removes this member, and those that are gone, from the list. Release
// what it holds before.
func (m *Member) Leave(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for name := range maps.Keys(m.members) {
		if name != m.name && m.members[name].unchanged < goneAfter {
			continue
		}
		// Purged, because a deletion would leave a marker for each random name.
		if err := m.bucket.Purge(ctx, m.keys.Member+name); err != nil {
			return fmt.Errorf("leave: %w", err)
		}
	}
	return nil
}

// Plan returns which units this member is to claim and which to release. All
// members who see the same make the same plan: those who hold more keep the
// larger shares, so that as little as possible moves, and no member holds more
// than ceil(units / members).
func (v View) Plan(units []string) (claim, release []string) {
	held := map[string][]string{}
	var free []string
	for _, unit := range units {
		if holder := v.Holders[unit]; holder != "" {
			held[holder] = append(held[holder], unit)
		} else {
			free = append(free, unit)
		}
	}
	members := slices.Clone(v.Members) // sorted by name; a stable sort keeps that among equals
	slices.SortStableFunc(members, func(a, b string) int { return len(held[b]) - len(held[a]) })
	rank := slices.Index(members, v.Self)
	if rank < 0 {
		return nil, nil
	}
	share := len(units) / len(members)
	if rank < len(units)%len(members) {
		share++
	}
	mine := held[v.Self]
	if len(mine) > share {
		return nil, mine[share:]
	}
	// Members that start together begin at different places.
	for i := range min(share-len(mine), len(free)) {
		claim = append(claim, free[(rank*share+i)%len(free)])
	}
	return claim, nil
}
