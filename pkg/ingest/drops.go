package ingest

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

// dropsEvery is how often counts of refused records go to the queue: often
// enough for a page that a person looks at, seldom enough to cost nothing.
const dropsEvery = 5 * time.Second

// dropsFlush bounds the last flush, when the process stops.
const dropsFlush = 3 * time.Second

// drops counts the records that were not taken, and sends the counts
// the way that records go, so that they are stored once. What a killed process
// had not yet sent is lost: these are counts, not records.
type drops struct {
	publisher Publisher
	logger    *slog.Logger
	now       func() time.Time

	mu     sync.Mutex
	counts map[dropKey]*record.Drop
}

type dropKey struct {
	project   string // its id
	retention uint16
	hour      int64 // Unix hours
	reason    string
}

func newDrops(publisher Publisher, logger *slog.Logger, now func() time.Time) *drops {
	return &drops{publisher: publisher, logger: logger, now: now, counts: map[dropKey]*record.Drop{}}
}

// add counts records of a project and their bytes under a reason.
func (d *drops) add(identity project.Identity, reason string, records int, bytes int64) {
	now := d.now()
	d.addCount(dropKey{identity.ProjectID, identity.RetentionDays, now.Unix() / 3600, reason}, record.Drop{
		Time: now.Truncate(time.Hour).UnixNano(), Reason: reason, Records: uint64(records), Bytes: uint64(bytes),
	})
}

func (d *drops) addCount(key dropKey, more record.Drop) {
	d.mu.Lock()
	defer d.mu.Unlock()
	count := d.counts[key]
	if count == nil {
		d.counts[key] = &more
		return
	}
	count.Records += more.Records
	count.Bytes += more.Bytes
}

// run sends the counts from time to time, and once more when ctx ends.
func (d *drops) run(ctx context.Context) error {
	ticker := time.NewTicker(dropsEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			d.flush(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropsFlush)
			defer cancel()
			d.flush(last)
			return nil
		}
	}
}

// flush sends what was counted, a message a project. What the queue does not
// take is counted again.
func (d *drops) flush(ctx context.Context) {
	d.mu.Lock()
	counts := d.counts
	d.counts = make(map[dropKey]*record.Drop, len(counts))
	d.mu.Unlock()

	byProject := map[string][]dropKey{}
	for key := range counts {
		byProject[key.project] = append(byProject[key.project], key)
	}
	for name, keys := range byProject {
		if err := d.send(ctx, name, keys, counts); err != nil {
			d.logger.Warn("counts of refused records not sent; they are kept", "project", name, "err", err)
			for _, key := range keys {
				d.addCount(key, *counts[key])
			}
		}
	}
}

// send publishes a project's counts, and again under the same id where nobody
// could say whether they were stored.
func (d *drops) send(ctx context.Context, name string, keys []dropKey, counts map[dropKey]*record.Drop) error {
	var batch record.Batch
	batch.Reset(record.KindDrop, name, keys[0].retention)
	for _, key := range keys {
		batch.AppendDrop(counts[key])
	}
	message := stream.Message{
		Kind: record.KindLog, Project: name, ID: "drops-" + rand.Text(),
		Parts: [][]byte{record.AppendBatch(nil, &batch)}, Records: batch.Len(),
	}
	_, err := d.publisher.Publish(ctx, message)
	if err != nil && ctx.Err() == nil {
		_, err = d.publisher.Publish(ctx, message)
	}
	return err
}
