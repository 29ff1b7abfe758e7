package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// Keys of the leases in the ledger's bucket: a member's beats, and who holds
// what. They stand apart from the readers' positions, w.> and n.>.
const (
	memberKeys = "l.member."
	claimKeys  = "l.claim."
)

const (
	// standStill is how long a member's beats must be seen to stand still
	// before it counts as gone: four beats of the slowest.
	standStill = 6 * time.Second
	// mostPerLook bounds what one look adds to it, so that an outage of the
	// queue, in which nobody could beat, is not held against anybody.
	mostPerLook = 2 * time.Second
)

// Leases share work among the members of one service: who is alive, and who
// holds what. They decide who works, never whether a write is right; that is
// the Ledger's compare-and-swap. Whoever wakes up late and still thinks to hold
// something is fenced there.
//
// No clocks of machines are compared: a member is gone when its revision is
// seen to stand still, by the looker's own monotonic clock.
type Leases struct {
	t    *Topology
	kv   jetstream.KeyValue
	log  *slog.Logger
	self string

	mu      sync.Mutex
	beat    uint64
	looked  time.Time
	members map[string]standing
	claims  map[string]claim
}

// standing is what was seen of a member.
type standing struct {
	revision uint64
	still    time.Duration // for which its revision did not change
}

type claim struct {
	holder   string
	revision uint64
}

// LeaseView is what one look showed.
type LeaseView struct {
	Self    string
	Members []string          // who is alive, sorted, with Self
	Holders map[string]string // what is held, by whom of them
}

// leaseJSON is the value of both kinds of key.
type leaseJSON struct {
	Holder string `json:"holder,omitempty"` // of a claim; none: it was released
	Beat   uint64 `json:"beat,omitempty"`   // of a member
}

// Leases makes a member of this name, of letters, digits, - and _. An empty
// name is a new one. A member that starts again under its name at once holds
// what it held; two at a time of one name fence each other off.
func (t *Topology) Leases(member string) (*Leases, error) {
	switch {
	case member == "":
		member = nuid.Next()
	case !isToken(member):
		return nil, fmt.Errorf("member %.80q: give a name of at most %d letters, digits, - and _", member, maxReason)
	}
	return &Leases{t: t, kv: t.kv, log: t.log, self: member, members: map[string]standing{}, claims: map[string]claim{}}, nil
}

// Beat says that this member is alive, and looks who else is. It is to be
// called every 2 s at most.
func (l *Leases) Beat(ctx context.Context) (LeaseView, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.beat++
	if err := l.put(ctx, memberKeys+l.self, leaseJSON{Beat: l.beat}); err != nil {
		return LeaseView{}, fmt.Errorf("beat: %w", err)
	}
	seen, err := l.look(ctx)
	if err != nil {
		return LeaseView{}, fmt.Errorf("look at the leases: %w", err)
	}
	l.learn(seen, time.Now())
	return l.view(), nil
}

func (l *Leases) put(ctx context.Context, key string, value leaseJSON) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err = l.kv.Put(ctx, key, text)
	return err
}

// look reads all keys of the leases as they are now.
func (l *Leases) look(ctx context.Context) ([]jetstream.KeyValueEntry, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	watcher, err := l.kv.WatchFiltered(ctx, []string{memberKeys + ">", claimKeys + ">"}, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, err
	}
	defer stopWatching(l.log, watcher)
	var seen []jetstream.KeyValueEntry
	for {
		select {
		case entry, ok := <-watcher.Updates():
			switch {
			case !ok:
				return nil, ErrUnavailable
			case entry == nil: // the end of what is there now
				return seen, nil
			}
			seen = append(seen, entry)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// learn takes in what a look showed.
func (l *Leases) learn(seen []jetstream.KeyValueEntry, now time.Time) {
	passed := time.Duration(0)
	if !l.looked.IsZero() {
		passed = min(now.Sub(l.looked), mostPerLook)
	}
	l.looked = now
	members, claims := map[string]standing{}, map[string]claim{}
	for _, entry := range seen {
		if name, ok := strings.CutPrefix(entry.Key(), memberKeys); ok {
			have := l.members[name]
			if have.revision == entry.Revision() {
				have.still += passed
			} else {
				have = standing{revision: entry.Revision()}
			}
			members[name] = have
			continue
		}
		var value leaseJSON
		if err := json.Unmarshal(entry.Value(), &value); err != nil {
			l.log.Warn("lease not understood, taken as free", "key", entry.Key(), "err", err)
		}
		claims[strings.TrimPrefix(entry.Key(), claimKeys)] = claim{value.Holder, entry.Revision()}
	}
	l.members, l.claims = members, claims
}

func (l *Leases) view() LeaseView {
	v := LeaseView{Self: l.self, Holders: map[string]string{}}
	for name, seen := range l.members {
		if name == l.self || seen.still < standStill {
			v.Members = append(v.Members, name)
		}
	}
	slices.Sort(v.Members)
	for name, c := range l.claims {
		if slices.Contains(v.Members, c.holder) {
			v.Holders[name] = c.holder
		}
	}
	return v
}

// Claim takes what nobody held at the last Beat, and tells whether it did:
// another may have been faster. After an error the next Beat tells.
func (l *Leases) Claim(ctx context.Context, name string) (bool, error) {
	l.mu.Lock()
	holder := l.view().Holders[name]
	l.mu.Unlock()
	if holder != "" {
		return holder == l.self, nil
	}
	return l.swap(ctx, name, l.self)
}

// Release gives back what this member holds. What another has taken meanwhile
// stays the other's.
func (l *Leases) Release(ctx context.Context, name string) error {
	l.mu.Lock()
	holder := l.claims[name].holder
	l.mu.Unlock()
	if holder != l.self {
		return nil
	}
	_, err := l.swap(ctx, name, "")
	return err
}

func (l *Leases) swap(ctx context.Context, name, holder string) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	text, err := json.Marshal(leaseJSON{Holder: holder})
	if err != nil {
		return false, fmt.Errorf("lease of %s: %w", name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	revision, err := l.kv.Update(ctx, claimKeys+name, text, l.claims[name].revision)
	if errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lease of %s: %w", name, err)
	}
	l.claims[name] = claim{holder, revision}
	return true, nil
}

// Leave takes this member, and those that are gone, off the list. What it
// holds is to be released before.
func (l *Leases) Leave(ctx context.Context) error {
	l.mu.Lock()
	gone := []string{l.self}
	for name := range maps.Keys(l.members) {
		if l.members[name].still >= standStill {
			gone = append(gone, name)
		}
	}
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	bucket, err := l.t.js.Stream(ctx, "KV_"+ledgerBucket)
	if err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	// Purged by subject: a deletion by key would leave a marker for ever.
	for _, name := range gone {
		if err := bucket.Purge(ctx, jetstream.WithPurgeSubject("$KV."+ledgerBucket+"."+memberKeys+name)); err != nil {
			return fmt.Errorf("leave: %w", err)
		}
	}
	return nil
}
