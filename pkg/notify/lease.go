package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

const (
	memberKeys = "member."
	leaseKeys  = "lease."
	// leaseTTL is how long a lease lasts that nobody renews. The server counts,
	// so that no clocks of machines are compared.
	leaseTTL = 6 * time.Second
)

// leases share units of work among notifiers. They decide who works, never
// whether a write is right.
type leases struct {
	bucket *Bucket
	self   string
	held   map[string]uint64 // revisions by unit
}

func newLeases(bucket *Bucket, member string) *leases {
	if member == "" {
		member = nuid.Next()
	}
	return &leases{bucket: bucket, self: member, held: map[string]uint64{}}
}

type leaseJSON struct {
	Holder string `json:"holder"`
}

// beat renews what is held, says that this notifier lives, and looks who else
// does. It tells how many live, and which units nobody holds.
func (l *leases) beat(ctx context.Context, units []string) (members int, free []string, err error) {
	if _, err := l.put(ctx, memberKeys+l.self, nil); err != nil {
		return 0, nil, fmt.Errorf("beat: %w", err)
	}
	for unit, revision := range l.held {
		renewed, err := l.put(ctx, leaseKeys+unit, &revision)
		if err != nil {
			delete(l.held, unit) // whether it is lost shows now
			continue
		}
		l.held[unit] = renewed
	}
	entries, err := l.bucket.all(ctx, memberKeys, leaseKeys)
	if err != nil {
		return 0, nil, err
	}
	for _, unit := range units {
		entry, ok := entries[leaseKeys+unit]
		switch {
		case !ok:
			free = append(free, unit)
		case l.mine(entry):
			l.held[unit] = entry.Revision()
		default:
			delete(l.held, unit)
		}
		delete(entries, leaseKeys+unit)
	}
	for key := range entries {
		if key[:len(memberKeys)] == memberKeys {
			members++
		}
	}
	return members, free, nil
}

func (l *leases) mine(entry jetstream.KeyValueEntry) bool {
	var value leaseJSON
	return json.Unmarshal(entry.Value(), &value) == nil && value.Holder == l.self
}

// put writes a key that goes by itself after leaseTTL; where a revision is
// given, only in its place.
func (l *leases) put(ctx context.Context, key string, revision *uint64) (uint64, error) {
	text, err := json.Marshal(leaseJSON{Holder: l.self})
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	options := []jetstream.PublishOpt{jetstream.WithMsgTTL(leaseTTL)}
	if revision != nil {
		options = append(options, jetstream.WithExpectLastSequencePerSubject(*revision))
	}
	ack, err := l.bucket.js.Publish(ctx, "$KV."+bucketName+"."+key, text, options...)
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// claim takes a unit that nobody held, and tells whether it did: another may
// have been faster.
func (l *leases) claim(ctx context.Context, unit string) bool {
	text, err := json.Marshal(leaseJSON{Holder: l.self})
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	revision, err := l.bucket.kv.Create(ctx, leaseKeys+unit, text, jetstream.KeyTTL(leaseTTL))
	if err != nil {
		return false // the next beat tells where it was taken all the same
	}
	l.held[unit] = revision
	return true
}

// release gives a unit back. What another has taken meanwhile stays the other's.
func (l *leases) release(ctx context.Context, unit string) {
	revision, ok := l.held[unit]
	if !ok {
		return
	}
	delete(l.held, unit)
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_ = l.bucket.kv.Delete(ctx, leaseKeys+unit, jetstream.LastRevision(revision)) // else it lapses
}

// leave takes this notifier off the list.
func (l *leases) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_ = l.bucket.kv.Delete(ctx, memberKeys+l.self) // else it lapses
}

// share is what this notifier should take of what is free, or give back of what
// it holds, so that nobody holds more than ceil(units / members). One at a time
// is given back.
func share(held, free, units []string, members int) (take []string, give string) {
	most := (len(units) + max(members, 1) - 1) / max(members, 1)
	if len(held) > most {
		slices.Sort(held)
		return nil, held[len(held)-1]
	}
	return free[:min(most-len(held), len(free))], ""
}
