package stream

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/logboom/logboom/pkg/record"
)

// DeadStream holds the dead letters, under subjects dead.<stream>.
const DeadStream = "DEAD"

// Name is the name of the stream that holds one shard of a kind.
func Name(kind record.Kind, shard int) string {
	return fmt.Sprintf("%s_%d", strings.ToUpper(kind.String()), shard)
}

// NotifySubject is the subject of the events of one shard that ask for a
// notification: what a notifier filters by.
func NotifySubject(shard int) string { return subject(record.KindEvent, shard, true) }

func subject(kind record.Kind, shard int, notify bool) string {
	switch {
	case kind == record.KindLog:
		return fmt.Sprintf("logs.%d", shard)
	case notify:
		return fmt.Sprintf("events.%d.notify", shard)
	default:
		return fmt.Sprintf("events.%d.quiet", shard)
	}
}

// streamSubjects is what the stream of a shard takes in.
func streamSubjects(kind record.Kind, shard int) []string {
	if kind == record.KindLog {
		return []string{subject(kind, shard, false)}
	}
	return []string{subject(kind, shard, false), subject(kind, shard, true)}
}

// route picks a message's shard. Events go by project alone, so that their
// order holds. A keyed log goes by project and key, so that a repeat meets the
// stream that knows the key. Other logs go by the rolling part alone: those of
// all projects that arrive together meet in one group and share its sync, and
// over time they spread over all shards.
func route(m *Message, roll uint64, shards int) int {
	switch {
	case m.Kind == record.KindEvent:
		return int(xxhash.Sum64String(m.Project) % uint64(shards))
	case m.ID != "":
		return int((xxhash.Sum64String(m.Project) ^ xxhash.Sum64String(m.ID)) % uint64(shards))
	}
	return int(roll % uint64(shards))
}

// messageID turns a caller's key into a Nats-Msg-Id. The project is part of
// it, because projects share streams and must not silence one another; the
// digest keeps it short, whatever the sender chose.
func messageID(project, key string) string {
	sum := sha256.Sum256([]byte(project + "\x00" + key))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}
