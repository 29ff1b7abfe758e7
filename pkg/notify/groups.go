package notify

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/logboom/logboom/pkg/outbox"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

const (
	// savePositionsEvery is how often the positions in the streams of logs are
	// stored.
	savePositionsEvery = 2 * time.Second
	// maxGroups bounds the groups of one project. Logs of further groups share
	// one alert.
	maxGroups = 100
	// maxSample bounds the text of a group's sample, in bytes.
	maxSample = 8 << 10
	// maxPattern is how many characters of a message distinguish its group.
	maxPattern = 200
)

// groups counts logs by project, application and pattern, and publishes an alert
// for each group.
type groups struct {
	n *Notifier

	mu        sync.Mutex
	rules     *logRules
	refreshed chan struct{}     // closed and replaced whenever the rules are loaded
	next      map[string]uint64 // by stream: the message to read next
	open      map[string]map[groupKey]*logGroup
}

type groupKey struct{ application, pattern string }

// overflow is the group of the logs beyond maxGroups.
var overflow = groupKey{"", "other messages"}

// logGroup is a group of similar logs. Its first alert is published timing.gather
// after its first log, and further ones every timing.groupEvery while logs come.
type logGroup struct {
	first       record.RowID     // of the logs in count
	unpublished map[uint8]uint64 // by shard: the first message of the logs in count
	sample      record.Log       // the first log
	since       time.Time        // when the queue stored the first log
	count       int              // logs since the last alert
	published   time.Time        // when the last alert was published
	due         time.Time
}

func newGroups(n *Notifier, rules *logRules) *groups {
	return &groups{n: n, rules: rules, refreshed: make(chan struct{}), next: map[string]uint64{}, open: map[string]map[groupKey]*logGroup{}}
}

// lowestSeverity returns the lowest severity that raises an alert in a project.
func (g *groups) lowestSeverity(projectID string) (lowest uint8, wanted bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	lowest, wanted = g.rules.lowest[projectID]
	return lowest, wanted
}

// awaitRules waits until rules were loaded after a message was stored. A person
// who sets a severity and sends a log at once gets its alert.
func (g *groups) awaitRules(ctx context.Context, name string, seq uint64) error {
	for {
		g.mu.Lock()
		end, refreshed := g.rules.ends[name], g.refreshed
		g.mu.Unlock()
		if seq <= end {
			return nil
		}
		select {
		case <-refreshed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// refreshRules loads the rules from time to time, until ctx ends. It returns
// errNoRules when no project wants alerts any more.
func (g *groups) refreshRules(ctx context.Context) error {
	for {
		if err := pause(ctx, rulesEvery); err != nil {
			return err
		}
		rules, err := g.n.loadLogRules(ctx, g.rules) // only this goroutine changes g.rules
		if err != nil {
			return err
		}
		g.mu.Lock()
		g.rules = rules
		close(g.refreshed)
		g.refreshed = make(chan struct{})
		g.mu.Unlock()
		if len(rules.lowest) == 0 {
			return errNoRules
		}
	}
}

func (g *groups) markRead(stream string, seq uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next[stream] = seq + 1
}

// add adds a log to its group. It copies what it keeps.
func (g *groups) add(projectID string, id record.RowID, l *record.Log, stored time.Time) {
	g.n.metrics.logs.Inc()
	key := groupKey{l.Application, pattern(l.Data)}
	g.mu.Lock()
	defer g.mu.Unlock()
	projectGroups := g.open[projectID]
	if projectGroups == nil {
		projectGroups = map[groupKey]*logGroup{}
		g.open[strings.Clone(projectID)] = projectGroups
	}
	group := projectGroups[key]
	if group == nil && len(projectGroups) >= maxGroups {
		key = overflow
		group = projectGroups[key]
	}
	if group == nil {
		group = &logGroup{unpublished: map[uint8]uint64{}}
		projectGroups[groupKey{strings.Clone(key.application), strings.Clone(key.pattern)}] = group
	}
	if _, ok := group.unpublished[id.Shard]; !ok {
		group.unpublished[id.Shard] = id.Seq
	}
	if group.count++; group.count > 1 {
		return
	}
	group.first, group.since = id, stored
	group.sample = record.Log{
		Timestamp: l.Timestamp, Application: strings.Clone(l.Application), Severity: strings.Clone(l.Severity),
		SeverityNumber: l.SeverityNumber, Data: strings.Clone(l.Data[:min(len(l.Data), maxSample)]), Host: strings.Clone(l.Host),
	}
	if group.published.IsZero() {
		group.due = time.Now().Add(g.n.timing.gather)
	}
}

// run publishes the alerts that are due and stores the positions, until ctx ends.
func (g *groups) run(ctx context.Context) error {
	ticker := time.NewTicker(min(g.n.timing.gather, time.Second) / 4)
	defer ticker.Stop()
	saved := time.Now()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := g.publishDue(ctx); err != nil {
			return err
		}
		if time.Since(saved) < savePositionsEvery {
			continue
		}
		saved = time.Now()
		for name, next := range g.positions() {
			if err := g.n.deps.Bucket.storeLogPosition(ctx, name, next); err != nil {
				return err
			}
		}
	}
}

// dueGroup is a copy of a group whose alert is due.
type dueGroup struct {
	projectID string
	key       groupKey
	logGroup
}

// publishDue publishes the alerts that are due. After an error the groups cannot
// be used any more; their logs are read again from the stored position.
func (g *groups) publishDue(ctx context.Context) error {
	for _, due := range g.collectDue(time.Now()) {
		alerts, ok, err := g.n.alerts.loadIfOn(ctx, due.projectID)
		if err != nil {
			return err
		}
		if !ok {
			continue // the alerts were turned off meanwhile
		}
		m := g.n.groupMessage(&due)
		if err := g.n.publishWithRow(ctx, outbox.Entry{ID: m.ID, Project: due.projectID, Since: due.since, Message: m}, alerts); err != nil {
			return err
		}
	}
	return nil
}

// collectDue returns the groups that are due and resets their counts. It deletes the
// groups that got no log since their last alert.
func (g *groups) collectDue(now time.Time) []dueGroup {
	g.mu.Lock()
	defer g.mu.Unlock()
	var due []dueGroup
	for projectID, projectGroups := range g.open {
		for key, group := range projectGroups {
			switch {
			case now.Before(group.due):
			case group.count == 0:
				delete(projectGroups, key)
			default:
				due = append(due, dueGroup{projectID, key, *group})
				clear(group.unpublished)
				group.count, group.published, group.due = 0, now, now.Add(g.n.timing.groupEvery)
			}
		}
		if len(projectGroups) == 0 {
			delete(g.open, projectID)
		}
	}
	return due
}

// positions returns, by stream, the first message that is not read or whose logs
// are not in an alert. After a kill, reading starts there. The count of a group
// may then include logs of an alert that was already published; it is never too
// low.
func (g *groups) positions() map[string]uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	positions := maps.Clone(g.next)
	for _, projectGroups := range g.open {
		for _, group := range projectGroups {
			for shard, first := range group.unpublished {
				name := stream.Name(record.KindLog, int(shard))
				if next, ok := positions[name]; !ok || first < next {
					positions[name] = first
				}
			}
		}
	}
	return positions
}

// pattern returns a message with the parts masked that change from one log to the
// next: quoted texts, and words that contain a digit, such as numbers, times,
// addresses and UUIDs. "user 17 timed out after 30s" and "user 99 timed out after
// 2s" have the same pattern.
func pattern(message string) string {
	var b strings.Builder
	rest := message
	for rest != "" && b.Len() < maxPattern {
		r := rune(rest[0])
		switch {
		case r == '"' || r == '\'' || r == '`':
			if end := strings.IndexByte(rest[1:], rest[0]); end >= 0 {
				b.WriteString("<text>")
				rest = rest[end+2:]
				continue
			}
			rest = rest[1:]
		case unicode.IsSpace(r):
			b.WriteByte(' ')
			rest = strings.TrimLeftFunc(rest, unicode.IsSpace)
		default:
			word := firstWord(rest)
			b.WriteString(maskWord(word))
			rest = rest[len(word):]
		}
	}
	return strings.TrimSpace(b.String())
}

// firstWord returns the text up to a space, a quote, or a mark that separates
// keys and values.
func firstWord(s string) string {
	end := strings.IndexFunc(s[1:], func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("\"'`=,;()[]{}", r) })
	if end < 0 {
		return s
	}
	return s[:end+1]
}

// maskWord returns "<id>" for hexadecimal words and "<n>" for other words with a
// digit.
func maskWord(word string) string {
	digits, hex := 0, len(word) >= 8
	for _, r := range word {
		if '0' <= r && r <= '9' {
			digits++
		}
		hex = hex && strings.ContainsRune("0123456789abcdefABCDEF-", r)
	}
	switch {
	case hex && digits > 0:
		return "<id>"
	case digits > 0:
		return "<n>"
	}
	return word
}
