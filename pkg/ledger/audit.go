package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/kv"
)

// auditKey is the key of the last audit, beside the readers' positions.
const auditKey = "audit"

// Audit is the result of the writers' last audit of the stored rows.
type Audit struct {
	At          time.Time      `json:"at"`
	BrokenParts uint64         `json:"broken_parts"` // put aside by ClickHouse; their rows are missing
	Findings    []AuditFinding `json:"findings"`     // of the streams with findings
}

// AuditFinding is what an audit found of one stream.
type AuditFinding struct {
	Stream  string `json:"stream"`
	Missing uint64 `json:"missing"` // rows that were stored and are missing
	Doubled uint64 `json:"doubled"` // rows beyond the first of each record
	Ahead   uint64 `json:"ahead"`   // messages after the ledger's last one that have rows
	From    uint64 `json:"from"`    // the sequences between which rows are missing or doubled
	To      uint64 `json:"to"`
}

// RecordAudit stores the result of an audit in place of the one before.
func (l *Ledger) RecordAudit(ctx context.Context, a Audit) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := l.bucket.Put(ctx, auditKey, a); err != nil {
		return fmt.Errorf("record audit: %w", err)
	}
	return nil
}

// LastAudit returns the result of the last audit, or a zero Audit if there was
// none.
func LastAudit(ctx context.Context, js jetstream.JetStream) (a Audit, err error) {
	bucket, err := kv.Find(ctx, js, BucketName)
	var entry kv.Entry
	if err == nil {
		entry, err = bucket.Get(ctx, auditKey)
	}
	if err == nil {
		err = entry.Decode(&a)
	}
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return Audit{}, fmt.Errorf("last audit: %w", err)
	}
	return a, nil
}
