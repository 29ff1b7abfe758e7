package stream

import (
	"fmt"
	"log/slog"
	"time"
)

const (
	defaultShards       = 4
	defaultMaxBytes     = 4 << 30
	defaultDeadMaxBytes = 1 << 30
	minStreamBytes      = 1 << 20
	// duplicateWindow is how long the server remembers a message's ID, in about 130
	// bytes of memory each.
	duplicateWindow    = 2 * time.Minute
	defaultReplayAge   = time.Hour
	defaultReplayShare = 5 // one fifth of MaxBytes
)

// Config describes the streams. A zero keeps the setting of an existing stream; a
// MaxBytes or Replicas that is not zero is applied to it.
type Config struct {
	// Shards is the number of streams of each kind. It is fixed when the first one
	// is created. 0: the existing number, or 4.
	Shards int
	// Replicas of each stream: 1 alone, 3 in a cluster. Default 1.
	Replicas int
	// MaxBytes is the size at which a stream refuses messages. The server reserves
	// it for each of the 2 × Shards streams. Default 4 GiB.
	MaxBytes int64
	// DeadMaxBytes is the same for the dead letters. Default 1 GiB.
	DeadMaxBytes int64
	// ReplayAge and ReplayBytes bound the committed messages that Purge keeps: the
	// younger ones, and of those the newest bytes. Defaults: 1 h, and a fifth of the
	// stream's limit.
	ReplayAge   time.Duration
	ReplayBytes int64
	// Logger receives what an operator should know. Default: none.
	Logger *slog.Logger
}

// Validate names the first setting that cannot work.
func (c Config) Validate() error {
	switch {
	case c.Shards < 0 || c.Shards > MaxShards:
		return fmt.Errorf("setting Shards is %d: give 1 to %d, or 0 for the existing number", c.Shards, MaxShards)
	case c.Replicas < 0 || c.Replicas > 5 || c.Replicas != 0 && c.Replicas%2 == 0:
		return fmt.Errorf("setting Replicas is %d: give 1, 3 or 5", c.Replicas)
	case c.MaxBytes != 0 && c.MaxBytes < minStreamBytes:
		return fmt.Errorf("setting MaxBytes is %d: give at least %d", c.MaxBytes, minStreamBytes)
	case c.DeadMaxBytes != 0 && c.DeadMaxBytes < minStreamBytes:
		return fmt.Errorf("setting DeadMaxBytes is %d: give at least %d", c.DeadMaxBytes, minStreamBytes)
	case c.ReplayAge < 0:
		return fmt.Errorf("setting ReplayAge is %s: give 0 or more", c.ReplayAge)
	case c.ReplayBytes < 0:
		return fmt.Errorf("setting ReplayBytes is %d: give 0 or more", c.ReplayBytes)
	}
	return nil
}

func orDefault[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}
