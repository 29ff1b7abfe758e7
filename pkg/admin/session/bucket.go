package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/project"
)

// The buckets and their bounds. A session takes some 300 bytes and a membership
// up to 4 KiB.
const (
	sessionsBucket = "SESSIONS"
	membersBucket  = "MEMBERS"
	bucketBytes    = 32 << 20
	maxDocument    = 16 << 10
)

// openBucket makes the bucket where it is missing; any number of processes may
// do so at once. It is made as the stream that it is, since the client's own
// way allows direct reads: a replica that has not heard of a sign-out yet could
// answer those.
func openBucket(ctx context.Context, js jetstream.JetStream, name string, age time.Duration, replicas int) (jetstream.KeyValue, error) {
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name:              "KV_" + name,
		Subjects:          []string{"$KV." + name + ".>"},
		MaxMsgsPerSubject: 1,
		MaxMsgSize:        maxDocument,
		MaxBytes:          bucketBytes,
		MaxAge:            age,
		Storage:           jetstream.FileStorage,
		Replicas:          max(1, replicas),
		Discard:           jetstream.DiscardNew,
		AllowRollup:       true, // a purged key keeps no history
		DenyDelete:        true,
	})
	if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return nil, unavailable("bucket "+name, err)
	}
	kv, err := js.KeyValue(ctx, name)
	if err != nil {
		return nil, unavailable("bucket "+name, err)
	}
	return kv, nil
}

// unavailable wraps an engine's error so that callers see what the record of
// projects says too.
func unavailable(doing string, err error) error {
	return fmt.Errorf("%s: %w: %w", doing, project.ErrUnavailable, err)
}
