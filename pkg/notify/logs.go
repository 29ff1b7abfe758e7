package notify

import (
	"context"
	"errors"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

const (
	// rulesEvery is how often the rules are loaded while a project wants alerts
	// of logs. Logs wait for the next load: see groups.awaitRules.
	rulesEvery = 250 * time.Millisecond
	// idleRulesEvery is how often they are loaded while no project does.
	idleRulesEvery = time.Second
)

// logRules says which logs raise alerts. The rules hold for all messages that
// were stored before they were loaded.
type logRules struct {
	revision uint64            // of the projects' settings
	lowest   map[string]uint8  // by project ID: the lowest severity number that raises an alert
	ends     map[string]uint64 // by stream: the last message before the rules were loaded
	start    map[string]uint64 // by stream: the last message before a project wanted alerts
}

// loadLogRules loads the current rules; last holds the rules of the last load.
// The order matters: first the ends of the streams, then the revision, then the
// settings of that revision or a later one.
func (n *Notifier) loadLogRules(ctx context.Context, last *logRules) (*logRules, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	rules := &logRules{ends: map[string]uint64{}}
	for shard := range n.deps.Queue.Shards() {
		name := stream.Name(record.KindLog, shard)
		info, err := n.deps.Queue.Info(ctx, name)
		if err != nil {
			return nil, err
		}
		rules.ends[name] = info.LastSeq
	}
	var err error
	if rules.revision, err = n.deps.Projects.AlertsRevision(ctx); err != nil {
		return nil, err
	}
	if last != nil && last.revision == rules.revision {
		rules.lowest = last.lowest
	} else {
		words, err := n.deps.Projects.LogSeverities(ctx)
		if err != nil {
			return nil, err
		}
		rules.lowest = map[string]uint8{}
		for projectID, word := range words {
			if number := record.SeverityNumber(word); number > 0 {
				rules.lowest[projectID] = number
			}
		}
	}
	rules.start = rules.ends
	if last != nil && len(rules.lowest) > 0 {
		rules.start = last.start
	}
	return rules, nil
}

// watchLogs reads the streams of logs while a project wants alerts of logs. While
// none does, it only loads the rules from time to time.
func (n *Notifier) watchLogs(ctx context.Context) error {
	var rules *logRules
	var err error
	for {
		if rules, err = n.loadLogRules(ctx, rules); err != nil {
			return err
		}
		if len(rules.lowest) > 0 {
			if rules, err = n.readLogs(ctx, rules); err != nil {
				return err
			}
		}
		// A project that wants alerts later gets those of later logs only.
		for shard := range n.deps.Queue.Shards() {
			if err := n.deps.Bucket.clearLogPosition(ctx, stream.Name(record.KindLog, shard)); err != nil {
				return err
			}
		}
		if err := pause(ctx, idleRulesEvery); err != nil {
			return err
		}
	}
}

// errNoRules reports that no project wants alerts of logs any more.
var errNoRules = errors.New("no project wants alerts of logs")

// readLogs reads the logs of all shards into common groups, because the logs of a
// project are spread over all shards. It returns the last rules when no project
// wants alerts any more.
func (n *Notifier) readLogs(ctx context.Context, rules *logRules) (*logRules, error) {
	groups := newGroups(n, rules)
	group, ctx := errgroup.WithContext(ctx)
	for shard := range n.deps.Queue.Shards() {
		group.Go(func() error { return n.readShard(ctx, shard, rules.start, groups) })
	}
	group.Go(func() error { return groups.run(ctx) })
	group.Go(func() error { return groups.refreshRules(ctx) })
	if err := group.Wait(); !errors.Is(err, errNoRules) {
		return nil, err
	}
	return groups.rules, nil
}

// readShard reads one stream from its stored position. Without one, it reads from
// the start of the rules.
func (n *Notifier) readShard(ctx context.Context, shard int, start map[string]uint64, groups *groups) error {
	name := stream.Name(record.KindLog, shard)
	info, err := n.deps.Queue.Info(ctx, name)
	if err != nil {
		return err
	}
	from := max(start[name]+1, info.FirstSeq)
	if stored, err := n.deps.Bucket.logPosition(ctx, name); err != nil {
		return err
	} else if stored != 0 && stored < from {
		from = max(stored, info.FirstSeq)
	} else if err := n.deps.Bucket.storeLogPosition(ctx, name, from); err != nil {
		return err
	}
	consumer, err := n.deps.Queue.Consume(ctx, name, from, stream.ConsumerConfig{MaxBytes: 8 << 20})
	if err != nil {
		return err
	}
	defer consumer.Close()
	m := logMatcher{shard: uint8(shard), groups: groups}
	for {
		delivery, err := consumer.Next(ctx)
		if err != nil {
			return err
		}
		if err := groups.awaitRules(ctx, name, delivery.Seq); err != nil {
			return err
		}
		m.match(delivery)
		groups.markRead(name, delivery.Seq)
	}
}

// logMatcher finds the logs of a stream that raise alerts.
type logMatcher struct {
	shard  uint8
	groups *groups
	reader record.Reader
	log    record.Log
}

// match adds the matching logs of a message to the groups. It skips the sections
// of projects that want no alerts.
func (m *logMatcher) match(delivery stream.Delivery) {
	m.reader.Reset(delivery.Data)
	idx := uint32(0)
	for {
		section, err := m.reader.NextSection()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				m.groups.n.deps.Logger.Warn("message not decoded", "stream", delivery.Stream, "seq", delivery.Seq, "err", err)
			}
			return
		}
		lowest, wanted := m.groups.lowestSeverity(section.Project)
		if section.Kind != record.KindLog {
			continue
		}
		if !wanted {
			idx += uint32(section.Rows)
			continue
		}
		for {
			ok, err := section.NextLog(&m.log)
			if err != nil || !ok {
				break
			}
			if m.log.SeverityNumber >= lowest {
				m.groups.add(section.Project, record.RowID{Shard: m.shard, Seq: delivery.Seq, Idx: idx}, &m.log, delivery.Time)
			}
			idx++
		}
	}
}
