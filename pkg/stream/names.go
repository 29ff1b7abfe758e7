package stream

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/logboom/logboom/pkg/record"
)

// MaxShards is the largest number of shards: a row's _shard is one byte.
const MaxShards = 256

// DeadStream holds the dead letters, under subjects dead.<stream>.
const DeadStream = "DEAD"

// Name returns the name of the stream of a shard, such as LOGS_0.
func Name(kind record.Kind, shard int) string {
	return fmt.Sprintf("%s_%d", strings.ToUpper(kind.String()), shard)
}

// NotifySubject returns the subject of a shard's events that ask for a notification.
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

// streamSubjects returns the subjects of the stream of a shard.
func streamSubjects(kind record.Kind, shard int) []string {
	if kind == record.KindLog {
		return []string{subject(kind, shard, false)}
	}
	return []string{subject(kind, shard, false), subject(kind, shard, true)}
}

// route returns a message's shard. An event's depends on its project alone, so that
// events stay in order. That of a log with an ID depends on project and ID, so that
// a repeat reaches the stream that knows the ID. Other logs follow the rolling
// part: logs of all projects that arrive together share a group and its disk sync,
// and over time they spread over all shards.
func route(m *Message, roll uint64, shards int) int {
	switch {
	case m.Kind == record.KindEvent:
		return int(xxhash.Sum64String(m.Project) % uint64(shards))
	case m.ID != "":
		return int((xxhash.Sum64String(m.Project) ^ xxhash.Sum64String(m.ID)) % uint64(shards))
	}
	return int(roll % uint64(shards))
}

// messageID returns the Nats-Msg-Id for a client's key. The project is part of it,
// because projects share streams and their keys must not collide. The digest keeps
// it short, however long the key is.
func messageID(project, key string) string {
	sum := sha256.Sum256([]byte(project + "\x00" + key))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}
