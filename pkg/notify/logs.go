package notify

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/outbox"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/webhook"
)

const (
	// saveEvery is how often it is kept how far the logs are read.
	saveEvery = 2 * time.Second
	// maxGroups bounds the groups of one project; further ones are told of
	// together.
	maxGroups = 100
)

// watchLogs reads the streams of logs for as long as a project wants to be told
// of some. While none does, it costs a look at the settings.
func (n *Notifier) watchLogs(ctx context.Context) error {
	book := newRuleBook(n)
	for {
		if err := book.look(ctx); err != nil {
			return err
		}
		if len(book.wanted) > 0 {
			if err := n.readLogs(ctx, book); err != nil {
				return err
			}
		}
		if err := n.deps.Bucket.forget(ctx, book.streams()); err != nil {
			return err
		}
		if err := pause(ctx, idleLook); err != nil {
			return err
		}
	}
}

// errNobody says that no project wants logs any more.
var errNobody = errors.New("no project wants to be told of logs")

// readLogs reads all shards, since the logs of one project are spread over them.
func (n *Notifier) readLogs(ctx context.Context, book *ruleBook) error {
	groups := newGroups(n, book)
	group, ctx := errgroup.WithContext(ctx)
	for shard := range n.deps.Queue.Shards() {
		group.Go(func() error { return n.readShard(ctx, shard, groups) })
	}
	group.Go(func() error { return groups.run(ctx) })
	group.Go(func() error { return groups.follow(ctx) })
	if err := group.Wait(); !errors.Is(err, errNobody) {
		return err
	}
	return nil
}

// readShard counts the logs of one stream from where it was left; where that is
// gone, or nobody wanted any before, from what came since that was known.
func (n *Notifier) readShard(ctx context.Context, shard int, groups *groups) error {
	name := stream.Name(record.KindLog, shard)
	info, err := n.deps.Queue.Info(ctx, name)
	if err != nil {
		return err
	}
	from := max(groups.begin[name]+1, info.FirstSeq)
	if next, err := n.deps.Bucket.next(ctx, name); err != nil {
		return err
	} else if next != 0 && next < from {
		from = max(next, info.FirstSeq)
	} else if err := n.deps.Bucket.putNext(ctx, name, from); err != nil {
		return err
	}
	consumer, err := n.deps.Queue.Consume(ctx, name, from, stream.ConsumerConfig{MaxBytes: 8 << 20})
	if err != nil {
		return err
	}
	defer consumer.Close()
	m := matcher{shard: uint8(shard), groups: groups}
	for {
		delivery, err := consumer.Next(ctx)
		if err != nil {
			return err
		}
		if err := groups.await(ctx, name, delivery.Seq); err != nil {
			return err
		}
		m.match(delivery)
		groups.passed(name, delivery.Seq)
	}
}

// matcher finds the logs of a stream that somebody is to be told of.
type matcher struct {
	shard  uint8
	groups *groups
	reader record.Reader
	log    record.Log
}

// match passes over the sections of projects that want nothing.
func (m *matcher) match(delivery stream.Delivery) {
	m.reader.Reset(delivery.Data)
	idx := uint32(0)
	for {
		section, err := m.reader.NextSection()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				m.groups.n.deps.Logger.Warn("message not read", "stream", delivery.Stream, "seq", delivery.Seq, "err", err)
			}
			return
		}
		least, wanted := m.groups.wants(section.Project)
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
			if m.log.SeverityNumber >= least {
				m.groups.add(section.Project, record.RowID{Shard: m.shard, Seq: delivery.Seq, Idx: idx}, &m.log, delivery.Time)
			}
			idx++
		}
	}
}

// groups count logs by project, application and pattern.
type groups struct {
	n     *Notifier
	begin map[string]uint64 // by stream: messages after it are to be read

	mu     sync.Mutex
	book   *ruleBook
	looked chan struct{}     // closed and replaced at each look into the book
	next   map[string]uint64 // by stream: the message that is read next
	open   map[string]map[groupKey]*logGroup
}

type groupKey struct{ application, pattern string }

// logGroup is logs that are alike. It is told of once Gather after its first,
// and again each GroupEvery for as long as it goes on.
type logGroup struct {
	first  record.RowID     // of those not told of
	untold map[uint8]uint64 // by shard: the first message of those not told of
	sample record.Log       // the same one
	since  time.Time
	count  int
	told   time.Time // when it was last told of
	due    time.Time
}

func newGroups(n *Notifier, book *ruleBook) *groups {
	return &groups{
		n: n, book: book, begin: book.before, looked: make(chan struct{}),
		next: map[string]uint64{}, open: map[string]map[groupKey]*logGroup{},
	}
}

func (g *groups) wants(projectID string) (uint8, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	least, ok := g.book.wanted[projectID]
	return least, ok
}

// await waits until the book was looked into after the message had come: who
// sets a severity and sends a log at once is told of it.
func (g *groups) await(ctx context.Context, name string, seq uint64) error {
	for {
		g.mu.Lock()
		known, looked := g.book.heads[name], g.looked
		g.mu.Unlock()
		if seq <= known {
			return nil
		}
		select {
		case <-looked:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// follow looks into the book again and again, until ctx ends or nobody wants
// logs any more.
func (g *groups) follow(ctx context.Context) error {
	for {
		if err := pause(ctx, busyLook); err != nil {
			return err
		}
		next := *g.book // only this goroutine changes it
		if err := next.look(ctx); err != nil {
			return err
		}
		g.mu.Lock()
		*g.book = next
		close(g.looked)
		g.looked = make(chan struct{})
		g.mu.Unlock()
		if len(next.wanted) == 0 {
			return errNobody
		}
	}
}

func (g *groups) passed(stream string, seq uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next[stream] = seq + 1
}

// overflow is the group of all that are too many groups.
var overflow = groupKey{"", "other messages"}

// add counts a log. It copies what it keeps.
func (g *groups) add(projectID string, id record.RowID, l *record.Log, received time.Time) {
	g.n.metrics.logs.Inc()
	key := groupKey{l.Application, pattern(l.Data)}
	g.mu.Lock()
	defer g.mu.Unlock()
	mine := g.open[projectID]
	if mine == nil {
		mine = map[groupKey]*logGroup{}
		g.open[strings.Clone(projectID)] = mine
	}
	found := mine[key]
	if found == nil && len(mine) >= maxGroups {
		key = overflow
		found = mine[key]
	}
	if found == nil {
		found = &logGroup{untold: map[uint8]uint64{}}
		mine[groupKey{strings.Clone(key.application), strings.Clone(key.pattern)}] = found
	}
	if _, ok := found.untold[id.Shard]; !ok {
		found.untold[id.Shard] = id.Seq
	}
	if found.count++; found.count > 1 {
		return
	}
	found.first, found.since = id, received
	found.sample = record.Log{
		Timestamp: l.Timestamp, Application: strings.Clone(l.Application), Severity: strings.Clone(l.Severity),
		SeverityNumber: l.SeverityNumber, Data: strings.Clone(l.Data[:min(len(l.Data), maxSample)]), Host: strings.Clone(l.Host),
	}
	if found.told.IsZero() {
		found.due = time.Now().Add(g.n.cfg.Gather)
	}
}

// maxSample is how much of a log is kept to be shown, in bytes.
const maxSample = 8 << 10

// run tells of groups when they are due, until ctx ends.
func (g *groups) run(ctx context.Context) error {
	ticker := time.NewTicker(min(g.n.cfg.Gather, time.Second) / 4)
	defer ticker.Stop()
	saved := time.Now()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := g.tell(ctx, time.Now()); err != nil {
			return err
		}
		if time.Since(saved) > saveEvery {
			saved = time.Now()
			if err := g.save(ctx); err != nil {
				return err
			}
		}
	}
}

// dueGroup is a group that is to be told of, as it was then.
type dueGroup struct {
	projectID string
	key       groupKey
	logGroup
}

// collect takes what is due out of the groups, and forgets those that have
// been silent since they were last told of.
func (g *groups) collect(now time.Time) []dueGroup {
	g.mu.Lock()
	defer g.mu.Unlock()
	var due []dueGroup
	for projectID, mine := range g.open {
		for key, one := range mine {
			switch {
			case now.Before(one.due):
			case one.count == 0:
				delete(mine, key)
			default:
				due = append(due, dueGroup{projectID, key, *one})
				clear(one.untold)
				one.count, one.told, one.due = 0, now, now.Add(g.n.cfg.GroupEvery)
			}
		}
		if len(mine) == 0 {
			delete(g.open, projectID)
		}
	}
	return due
}

// tell has what is due wait for its destination. After an error the groups are of
// no use any more: what they held is read again from where it was noted.
func (g *groups) tell(ctx context.Context, now time.Time) error {
	for _, one := range g.collect(now) {
		alerts, ok, err := g.n.settings.reachable(ctx, one.projectID)
		if err != nil {
			return err
		}
		if !ok {
			continue // it was turned off meanwhile
		}
		row, err := g.n.put(ctx, one.entry(g.n), alerts)
		if err == nil {
			err = g.n.putRows(ctx, []clickhouse.DeliveryRow{*row})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entry is the alert about a group. Its id is made of the group's first log.
func (d *dueGroup) entry(n *Notifier) outbox.Entry {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(d.key.application + "\x00" + d.key.pattern)) // never fails
	id := fmt.Sprintf("l-%s-%08x", d.first, hash.Sum32())
	m := webhook.Message{
		ID: id, Kind: "logs", Project: projectName(d.projectID), Source: d.sample.Application, Severity: colourOf(d.sample.SeverityNumber),
		Title: d.sample.Severity + ": " + firstLine(d.sample.Data), Text: d.sample.Data, Count: d.count, Time: time.Unix(0, d.sample.Timestamp),
		Link: n.link(d.projectID, "logs", d.first.String()),
	}
	if d.count > 1 {
		m.Title = fmt.Sprintf("%d × %s", d.count, m.Title)
		m.Fields = []webhook.Field{{Key: "pattern", Value: d.key.pattern}}
	}
	if d.sample.Host != "" {
		m.Fields = append(m.Fields, webhook.Field{Key: "host", Value: d.sample.Host})
	}
	return outbox.Entry{ID: id, Project: d.projectID, Since: d.since, Message: m.Bounded()}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// colourOf is the colour of an OpenTelemetry severity number.
func colourOf(severity uint8) string {
	switch {
	case severity >= 17:
		return "error"
	case severity >= 13:
		return "warn"
	}
	return "info"
}

// save notes how far the streams are read, where everything read was told of.
// What is not is read again after a kill: its count may then be too high by
// what was told of and not noted, and never too low.
func (g *groups) save(ctx context.Context) error {
	for name, next := range g.unsaid() {
		if err := g.n.deps.Bucket.putNext(ctx, name, next); err != nil {
			return err
		}
	}
	return nil
}

// unsaid is by stream the first message that was not read or not told of.
func (g *groups) unsaid() map[string]uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	unsaid := maps.Clone(g.next)
	for _, mine := range g.open {
		for _, one := range mine {
			for shard, first := range one.untold {
				name := stream.Name(record.KindLog, int(shard))
				if next, ok := unsaid[name]; !ok || first < next {
					unsaid[name] = first
				}
			}
		}
	}
	return unsaid
}
