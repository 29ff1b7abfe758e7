package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/project"
)

// Trail is an Audit that keeps the changes and lists them.
type Trail interface {
	Audit
	// Changes lists the changes, the newest first, before the place given (0:
	// all), and the place where the next page begins (0: there is none).
	Changes(ctx context.Context, before uint64, limit int) ([]Change, uint64, error)
}

// What is kept of the trail: a change takes some 300 bytes, so these are years
// of it. Beyond, the oldest go.
const (
	trailStream  = "AUDIT"
	trailSubject = "audit"
	trailBytes   = 64 << 20
	trailAge     = 400 * 24 * time.Hour
	maxChange    = 16 << 10
)

// streamTrail is a Trail in a stream of the queue's cluster.
type streamTrail struct {
	Audit
	js     jetstream.JetStream
	stream jetstream.Stream
	logger *slog.Logger
}

// OpenTrail keeps changes in a stream, and writes each to the log too. It makes
// the stream where it is missing; any number of processes may do so at once.
func OpenTrail(ctx context.Context, js jetstream.JetStream, logger *slog.Logger, replicas int) (Trail, error) {
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: trailStream, Subjects: []string{trailSubject}, Storage: jetstream.FileStorage, Replicas: max(1, replicas),
		MaxBytes: trailBytes, MaxAge: trailAge, MaxMsgSize: maxChange, Discard: jetstream.DiscardOld, DenyDelete: true, DenyPurge: true,
	})
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		stream, err = js.Stream(ctx, trailStream)
	}
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w: %w", trailStream, project.ErrUnavailable, err)
	}
	return &streamTrail{NewLogAudit(logger), js, stream, logger}, nil
}

// Changed implements Audit. The change was made already, so that one that
// cannot be kept is told loudly and stands.
func (t *streamTrail) Changed(ctx context.Context, change Change) {
	t.Audit.Changed(ctx, change)
	document, err := json.Marshal(change)
	if err == nil {
		_, err = t.js.Publish(ctx, trailSubject, document)
	}
	if err != nil {
		t.logger.Error("change not kept in the audit trail", "action", string(change.Action), "request_id", change.RequestID, "err", err)
	}
}

// Changes implements Trail. It reads one change after the other, from the newest
// on: a page of fifty takes some milliseconds.
func (t *streamTrail) Changes(ctx context.Context, before uint64, limit int) ([]Change, uint64, error) {
	info, err := t.stream.Info(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("audit trail: %w: %w", project.ErrUnavailable, err)
	}
	at := info.State.LastSeq
	if before > 0 {
		at = min(at, before-1)
	}
	var list []Change
	for ; at > 0 && at >= info.State.FirstSeq && len(list) < limit; at-- {
		change, err := t.read(ctx, at)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue // it went meanwhile
		}
		if err != nil {
			return nil, 0, err
		}
		list = append(list, change)
	}
	if at == 0 || at < info.State.FirstSeq {
		return list, 0, nil
	}
	return list, at + 1, nil
}

func (t *streamTrail) read(ctx context.Context, at uint64) (Change, error) {
	var change Change
	message, err := t.stream.GetMsg(ctx, at)
	if err != nil {
		return change, fmt.Errorf("audit trail: %w: %w", project.ErrUnavailable, err)
	}
	if err := json.Unmarshal(message.Data, &change); err != nil {
		return change, fmt.Errorf("audit trail, change %d: %w", at, err)
	}
	return change, nil
}
