package ingest

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/logboom/logboom/pkg/decode"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/token"
)

const (
	// dropsInterval is how often the counts of dropped records are sent: often
	// enough for a page, seldom enough to cost nothing.
	dropsInterval = 5 * time.Second
	// dropsTimeout bounds the last sending, when the process stops.
	dropsTimeout = 3 * time.Second
)

// drops counts the records that were not accepted. It sends the counts over the
// queue like records, so that each is stored once. Counts that a killed process
// has not sent are lost.
type drops struct {
	publisher Publisher
	logger    *slog.Logger
	now       func() time.Time

	mu     sync.Mutex
	counts map[dropKey]*record.Drop
}

type dropKey struct {
	project   string // its ID
	retention uint16
	hour      int64 // Unix hours
	reason    string
}

func newDrops(publisher Publisher, logger *slog.Logger, now func() time.Time) *drops {
	return &drops{publisher: publisher, logger: logger, now: now, counts: map[dropKey]*record.Drop{}}
}

// add counts records of a project and their bytes under a reason.
func (d *drops) add(identity token.Identity, reason string, records int, bytes int64) {
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

// run sends the counts at each interval, and once more when ctx ends.
func (d *drops) run(ctx context.Context) error {
	ticker := time.NewTicker(dropsInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			d.flush(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropsTimeout)
			defer cancel()
			d.flush(last)
			return nil
		}
	}
}

// flush sends the counts, one message a project. It keeps the counts that could
// not be sent.
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
			d.logger.Warn("counts of dropped records not sent: they are kept", "project", name, "err", err)
			for _, key := range keys {
				d.addCount(key, *counts[key])
			}
		}
	}
}

// send publishes a project's counts. After an error it tries once more with the
// same message id, so that the queue stores the counts once.
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

const (
	// deadLetterStream is the stream that a bad entry's dead letter names: an entry
	// that never became a record was on no stream.
	deadLetterStream = "ingest"
	// maxDeadLetterBytes is how much of a bad entry its dead letter holds.
	maxDeadLetterBytes = 16 << 10
	// deadLettersAtOnce is how many dead letters of a request are sent at a time.
	deadLettersAtOnce = 8
)

// deadLetterRejected counts the bad entries of an accepted body and stores those
// that the result lists as dead letters. The client is not told, because it
// would send the whole body again and again. So an entry whose dead letter
// cannot be stored is lost; it is counted and logged.
func (s *Server) deadLetterRejected(ctx context.Context, r *request, body []byte, result decode.Result) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.deadLetterTimeout)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(deadLettersAtOnce)
	for i, rejection := range result.Rejected {
		records := 1
		if i == len(result.Rejected)-1 { // the entries that are not listed count with the last one
			records += result.RejectedTotal - len(result.Rejected)
		}
		s.drops.add(r.identity, rejection.Code, records, rejection.End-rejection.Start)
		entry := body[rejection.Start:rejection.End]
		letter := stream.DeadLetter{
			Reason: rejection.Code,
			Stream: deadLetterStream,
			Time:   s.deps.Now(),
			Data:   entry[:min(len(entry), maxDeadLetterBytes)],
			Detail: fmt.Sprintf("project %s: event %d of a request, %d bytes: %s", r.identity.ProjectName, rejection.Index, len(entry), rejection.Detail),
		}
		group.Go(func() error { return s.deps.DeadLetter(ctx, letter) })
	}
	if err := group.Wait(); err != nil {
		s.deps.Logger.Warn("bad entries not stored as dead letters", "project", r.identity.ProjectID, "err", err)
	}
}
