package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/record"
)

const (
	// shardsKey is the metadata of the first stream with the number of shards.
	shardsKey = "logboom.shards"
	// callTimeout bounds one request to the server. Callers that need the answer
	// retry.
	callTimeout = 2 * time.Second
	// headroom is how many bytes of headers a message may get as a dead letter.
	headroom = 16 << 10
	// openAttempts covers other processes that create the same streams now.
	openAttempts = 3
	// openTimeout covers the start of servers and the election of leaders, which
	// takes some 4 to 9 s, and again when another server is lost meanwhile.
	openTimeout = time.Minute
	// nearlyFull is the percentage of a stream's limit from which the queue counts as
	// full.
	nearlyFull = 95
)

// Topology is the queue's streams, checked and ready.
type Topology struct {
	js     jetstream.JetStream
	nc     *nats.Conn
	shards int
	cfg    Config
	log    *slog.Logger
}

// Open creates the missing streams and checks the existing ones. Several processes
// may do so at once. It waits up to a minute for a queue that is not ready yet. A
// number of shards, or a guarantee of a stream, that differs from the existing one
// is an error that names both.
func Open(ctx context.Context, js jetstream.JetStream, cfg Config) (*Topology, error) {
	t, err := newTopology(js, cfg)
	if err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	if err := t.openWithRetries(ctx); err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	return t, nil
}

// newTopology returns the queue without reading anything from it.
func newTopology(js jetstream.JetStream, cfg Config) (*Topology, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Topology{js: js, nc: js.Conn(), cfg: cfg, log: orDefault(cfg.Logger, slog.New(slog.DiscardHandler))}, nil
}

// openWithRetries retries while the queue is not ready, and returns the last error.
func (t *Topology) openWithRetries(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	retry := newRetries(t.log)
	for {
		err := t.open(ctx)
		if err == nil || !notReady(err) {
			return err
		}
		retry.report(ctx, "queue not ready", "err", err)
		if retry.pause(ctx) != nil {
			return err
		}
	}
}

// open creates the first stream of logs before all others: its metadata fixes the
// number of shards among processes that open with different settings.
func (t *Topology) open(ctx context.Context) error {
	first, err := t.ensure(ctx, t.shardConfig(record.KindLog, 0, orDefault(t.cfg.Shards, defaultShards)))
	if err != nil {
		return err
	}
	if t.shards, err = shardCount(first, t.cfg.Shards); err != nil {
		return err
	}
	for _, kind := range []record.Kind{record.KindLog, record.KindEvent} {
		for shard := range t.shards {
			if _, err := t.ensure(ctx, t.shardConfig(kind, shard, t.shards)); err != nil {
				return err
			}
		}
	}
	_, err = t.ensure(ctx, t.deadConfig())
	return err
}

func shardCount(first *jetstream.StreamInfo, wanted int) (int, error) {
	text := first.Config.Metadata[shardsKey]
	have, err := strconv.Atoi(text)
	if err != nil || have < 1 || have > MaxShards {
		return 0, fmt.Errorf("stream %s has metadata %s=%q, which is not a number of shards: Logboom did not create it",
			first.Config.Name, shardsKey, text)
	}
	if wanted != 0 && wanted != have {
		return 0, fmt.Errorf("setting Shards asks for %d shards, but the queue was created with %d: give %d, or 0 for the existing number",
			wanted, have, have)
	}
	return have, nil
}

func (t *Topology) shardConfig(kind record.Kind, shard, shards int) jetstream.StreamConfig {
	cfg := t.streamConfig(Name(kind, shard), streamSubjects(kind, shard), orDefault(t.cfg.MaxBytes, defaultMaxBytes))
	cfg.Metadata = map[string]string{shardsKey: strconv.Itoa(shards)}
	cfg.DenyDelete = true
	return cfg
}

func (t *Topology) deadConfig() jetstream.StreamConfig {
	return t.streamConfig(DeadStream, []string{"dead.>"}, orDefault(t.cfg.DeadMaxBytes, defaultDeadMaxBytes))
}

// streamConfig returns what all streams have in common. A full stream refuses new
// messages; JetStream's default would drop old ones in silence.
func (t *Topology) streamConfig(name string, subjects []string, maxBytes int64) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:               name,
		Subjects:           subjects,
		Retention:          jetstream.LimitsPolicy,
		Discard:            jetstream.DiscardNew,
		Storage:            jetstream.FileStorage,
		MaxBytes:           maxBytes,
		Replicas:           orDefault(t.cfg.Replicas, 1),
		Duplicates:         duplicateWindow,
		AllowAtomicPublish: true,
		AllowDirect:        true,
	}
}

// ensure creates a stream, or checks the existing one.
func (t *Topology) ensure(ctx context.Context, want jetstream.StreamConfig) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	var err error
	for range openAttempts {
		var have jetstream.Stream
		if have, err = t.js.Stream(ctx, want.Name); err == nil {
			return t.reconcile(ctx, have, want)
		}
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			if have, err = t.js.CreateStream(ctx, want); err == nil {
				return have.CachedInfo(), nil
			}
		}
		if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			break
		}
	}
	if api, ok := errors.AsType[*jetstream.APIError](err); ok && api.ErrorCode == codeStoreFull {
		return nil, fmt.Errorf("stream %s: the server has no room to reserve %d bytes: lower MaxBytes or give the server more: %w",
			want.Name, want.MaxBytes, err)
	}
	return nil, fmt.Errorf("stream %s: %w", want.Name, err)
}

// reconcile refuses a stream without the guarantees that Logboom needs, and applies
// the settings that may change.
func (t *Topology) reconcile(ctx context.Context, stream jetstream.Stream, want jetstream.StreamConfig) (*jetstream.StreamInfo, error) {
	have := stream.CachedInfo().Config
	if err := sameGuarantees(have, want); err != nil {
		return nil, fmt.Errorf("stream %s: %w", want.Name, err)
	}
	next := t.applied(have, want)
	if next.MaxBytes == have.MaxBytes && next.Replicas == have.Replicas {
		return stream.CachedInfo(), nil
	}
	updated, err := t.js.UpdateStream(ctx, next)
	if err != nil {
		return nil, fmt.Errorf("stream %s: apply settings: %w", want.Name, err)
	}
	t.log.InfoContext(ctx, "stream settings changed", "stream", want.Name, "max_bytes", next.MaxBytes, "replicas", next.Replicas)
	return updated.CachedInfo(), nil
}

// applied returns the existing configuration with the given settings.
func (t *Topology) applied(have, want jetstream.StreamConfig) jetstream.StreamConfig {
	given := t.cfg.MaxBytes
	if want.Name == DeadStream {
		given = t.cfg.DeadMaxBytes
	}
	if given != 0 {
		have.MaxBytes = want.MaxBytes
	}
	if t.cfg.Replicas != 0 {
		have.Replicas = want.Replicas
	}
	return have
}

// sameGuarantees returns an error that names the first property that differs.
func sameGuarantees(have, want jetstream.StreamConfig) error {
	differs := func(property string, have, want any) error {
		return fmt.Errorf("%s is %v, but Logboom needs %v: remove the stream once it is drained, or use another queue",
			property, have, want)
	}
	switch {
	case !slices.Equal(have.Subjects, want.Subjects):
		return differs("subjects", have.Subjects, want.Subjects)
	case have.Retention != want.Retention:
		return differs("retention", have.Retention, want.Retention)
	case have.Discard != want.Discard:
		return differs("discard", have.Discard, want.Discard)
	case have.Storage != want.Storage:
		return differs("storage", have.Storage, want.Storage)
	case have.PersistMode != want.PersistMode:
		return differs("persist mode", have.PersistMode, want.PersistMode)
	case have.MaxAge != 0:
		return differs("maximum age", have.MaxAge, "none")
	case have.MaxMsgs > 0 || have.MaxMsgsPerSubject > 0 || have.MaxMsgSize > 0:
		return differs("a limit on messages", "set", "none")
	case have.Sealed || have.NoAck || have.DenyPurge:
		return differs("sealed, no-ack or deny-purge", "set", "none")
	case have.DenyDelete != want.DenyDelete:
		return differs("deny delete", have.DenyDelete, want.DenyDelete)
	case !have.AllowAtomicPublish:
		return differs("atomic publish", false, true)
	case !have.AllowDirect:
		return differs("direct get", false, true)
	}
	return nil
}

// Shards returns the number of streams of each kind.
func (t *Topology) Shards() int { return t.shards }

// Streams returns the names of the streams of a kind, by shard.
func (t *Topology) Streams(kind record.Kind) []string {
	names := make([]string, t.shards)
	for shard := range names {
		names[shard] = Name(kind, shard)
	}
	return names
}

// MaxMessage returns the size of the largest part of a Message, in bytes.
func (t *Topology) MaxMessage() int { return int(t.nc.MaxPayload()) - headroom }

// apiSubject returns the subject of a JetStream request for which nats.go has no
// call.
func (t *Topology) apiSubject(request string) string {
	options := t.js.Options()
	switch {
	case options.Domain != "":
		return "$JS." + options.Domain + ".API." + request
	case options.APIPrefix != "":
		return strings.TrimSuffix(options.APIPrefix, ".") + "." + request
	}
	return jetstream.DefaultAPIPrefix + request
}

// Healthy fails with ErrUnavailable where a stream cannot be reached, and with
// ErrFull where one is at least 95 % full.
func (t *Topology) Healthy(ctx context.Context) error {
	if !t.nc.IsConnected() {
		return fmt.Errorf("%w: not connected", ErrUnavailable)
	}
	for _, name := range append(t.Streams(record.KindLog), t.Streams(record.KindEvent)...) {
		info, err := t.Info(ctx, name)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		if info.MaxBytes > 0 && info.Bytes >= uint64(info.MaxBytes)/100*nearlyFull {
			return fmt.Errorf("%w: stream %s holds %d of %d bytes", ErrFull, name, info.Bytes, info.MaxBytes)
		}
	}
	return nil
}
