package stream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

const (
	presenceBucket = "PROCESSES"
	presenceBytes  = 4 << 20
	// presenceEvery is how often a process says that it is there; presenceAge is
	// how long after that it counts as gone: three beats and some.
	presenceEvery = 5 * time.Second
	presenceAge   = 17 * time.Second
	maxUnready    = 512 // bytes of the reason
)

// Member is a process that is running now.
type Member struct {
	ID      string    `json:"id"`   // of this run
	Name    string    `json:"name"` // ingest, writer, …
	Host    string    `json:"host"`
	Version string    `json:"version"`
	Ops     string    `json:"ops"` // where its metrics are
	Started time.Time `json:"started"`
	Unready string    `json:"unready,omitempty"` // why it is not ready for work
	Seen    time.Time `json:"-"`                 // when the queue heard of it last
}

// Presence has a process say that it is there, for whoever operates the
// installation. Nothing depends on it: where the queue does not take it, the
// process goes on.
type Presence struct {
	js       jetstream.JetStream
	self     Member
	ready    func(context.Context) error
	replicas int
	log      *slog.Logger
}

// NewPresence is the presence of this process, which begins now; ready tells whether it is ready
// for work. Run says it.
func NewPresence(js jetstream.JetStream, self Member, ready func(context.Context) error, replicas int, logger *slog.Logger) *Presence {
	self.ID, self.Started = nuid.Next(), time.Now().UTC()
	self.Host, _ = os.Hostname() // without a name it is shown without
	return &Presence{js: js, self: self, ready: ready, replicas: replicas, log: logger}
}

// Run says every few seconds that the process is there, until ctx ends, and then
// that it is gone.
func (p *Presence) Run(ctx context.Context) error {
	tick := time.NewTicker(presenceEvery)
	defer tick.Stop()
	told := false
	for {
		if err := p.say(ctx); err != nil && ctx.Err() == nil && !told {
			p.log.Warn("presence not shown, this process is missing on the page of operations", "err", err)
			told = true
		} else if err == nil {
			told = false
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			p.leave(context.WithoutCancel(ctx))
			return nil
		}
	}
}

func (p *Presence) say(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	kv, err := openPresence(ctx, p.js, p.replicas)
	if err != nil {
		return err
	}
	self := p.self
	if err := p.ready(ctx); err != nil {
		self.Unready = err.Error()
		self.Unready = self.Unready[:min(len(self.Unready), maxUnready)]
	}
	text, err := json.Marshal(self)
	if err != nil {
		return err
	}
	_, err = kv.Put(ctx, self.ID, text)
	return err
}

// leave takes the process off the list; where that fails it goes by itself.
func (p *Presence) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	kv, err := p.js.KeyValue(ctx, presenceBucket)
	if err == nil {
		err = kv.Purge(ctx, p.self.ID)
	}
	if err != nil {
		p.log.Debug("presence not ended", "err", err)
	}
}

// MakePresence makes the bucket that processes say in that they are there, so
// that those find it who may not make it.
func MakePresence(ctx context.Context, js jetstream.JetStream, replicas int) error {
	_, err := openPresence(ctx, js, replicas)
	return err
}

// openPresence opens the bucket and makes it where it is missing. What it holds
// is of the last seconds, but it is on disk all the same: a server that starts
// again would know nothing of one in memory, and most processes may make none.
func openPresence(ctx context.Context, js jetstream.JetStream, replicas int) (jetstream.KeyValue, error) {
	kv, err := js.KeyValue(ctx, presenceBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: presenceBucket, Description: "the processes that are running", History: 1, TTL: presenceAge,
			MaxBytes: presenceBytes, Storage: jetstream.FileStorage, Replicas: max(replicas, 1),
		})
	}
	if errors.Is(err, jetstream.ErrBucketExists) {
		kv, err = js.KeyValue(ctx, presenceBucket)
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", presenceBucket, err)
	}
	return kv, nil
}

// Members are the processes that said lately that they are there, by name.
func (o *Overview) Members(ctx context.Context) ([]Member, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	kv, err := o.js.KeyValue(ctx, presenceBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w: %w", presenceBucket, ErrUnavailable, err)
	}
	watcher, err := kv.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w: %w", presenceBucket, ErrUnavailable, err)
	}
	defer func() { _ = watcher.Stop() }() // the server forgets it by itself
	var list []Member
	for {
		select {
		case entry := <-watcher.Updates():
			if entry == nil { // the end of what is there now
				slices.SortFunc(list, func(a, b Member) int {
					return cmp.Or(cmp.Compare(a.Name, b.Name), a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID))
				})
				return list, nil
			}
			var m Member
			if err := json.Unmarshal(entry.Value(), &m); err != nil {
				return nil, fmt.Errorf("bucket %s: key %s: %w", presenceBucket, entry.Key(), err)
			}
			m.Seen = entry.Created()
			list = append(list, m)
		case <-ctx.Done():
			return nil, fmt.Errorf("bucket %s: %w: %w", presenceBucket, ErrUnavailable, context.Cause(ctx))
		}
	}
}
