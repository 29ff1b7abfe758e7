package notify

import (
	"context"
	"time"

	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

const (
	// busyLook is how often it is looked up which projects want logs while some
	// do: logs wait for the next look, see groups.await.
	busyLook = 250 * time.Millisecond
	// idleLook is how often while none does.
	idleLook = time.Second
)

// rules are the least severities of the projects that want logs, by their id.
type rules map[string]uint8

// ruleBook is what is known of the rules, and since when: they hold for all
// messages up to the heads, for those were there before the rules were asked
// for.
type ruleBook struct {
	n        *Notifier
	asked    bool
	revision uint64 // of the settings that the rules were made of
	wanted   rules
	heads    map[string]uint64 // by stream of logs: its end before the last look
	before   map[string]uint64 // the same at the last look that found no rules, or the first of all
}

func newRuleBook(n *Notifier) *ruleBook { return &ruleBook{n: n} }

// streams are the streams of logs.
func (b *ruleBook) streams() []string {
	var names []string
	for shard := range b.n.deps.Queue.Shards() {
		names = append(names, stream.Name(record.KindLog, shard))
	}
	return names
}

// look brings the book up to date. The order matters: the ends of the streams
// come first, then the revision, then what it is of.
func (b *ruleBook) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	heads := map[string]uint64{}
	for _, name := range b.streams() {
		info, err := b.n.deps.Queue.Info(ctx, name)
		if err != nil {
			return err
		}
		heads[name] = info.LastSeq
	}
	revision, err := b.n.deps.Projects.AlertsRevision(ctx)
	if err != nil {
		return err
	}
	if !b.asked || revision != b.revision {
		words, err := b.n.deps.Projects.LogSeverities(ctx)
		if err != nil {
			return err
		}
		b.wanted = numbered(words)
	}
	if !b.asked || len(b.wanted) == 0 {
		b.before = heads
	}
	b.asked, b.revision, b.heads = true, revision, heads
	return nil
}

func numbered(words map[string]string) rules {
	wanted := rules{}
	for projectID, word := range words {
		if number := record.SeverityNumber(word); number > 0 {
			wanted[projectID] = number
		}
	}
	return wanted
}
