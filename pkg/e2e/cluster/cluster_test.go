package cluster

import (
	"os"
	"slices"
	"testing"
	"time"
)

// everything reports whether all faults run. Otherwise a selection runs, which
// takes little enough time for the ordinary test run.
func everything() bool { return os.Getenv("LOGBOOM_TEST_CLUSTER") == "all" }

// held is how long a container stays paused or disconnected: longer than every
// timeout of one step, and shorter than the retries of a client.
const held = 4 * time.Second

// fault is something that is done to a container and undone again.
type fault struct {
	name string
	do   func(c *cluster, b *box)
	undo func(c *cluster, b *box)
}

var faults = []fault{
	{"killed", func(_ *cluster, b *box) { b.kill() }, func(_ *cluster, b *box) { b.start() }},
	{"paused", func(_ *cluster, b *box) { b.pause(); <-time.After(held) }, func(_ *cluster, b *box) { b.resume() }},
	{"cut off", func(c *cluster, b *box) { b.cut(c.inner); <-time.After(held) }, func(c *cluster, b *box) { b.join(c.inner) }},
}

// TestEveryAcceptedRecordIsStoredOnceWhateverHappens inflicts all faults on one
// cluster under load, one after the other, and counts the records at the end.
func TestEveryAcceptedRecordIsStoredOnceWhateverHappens(t *testing.T) {
	c := newCluster(t)
	l := c.startLoad()
	n := 0
	flows := func(t *testing.T, what string, began time.Time) {
		t.Helper()
		n++
		l.flows(t, n)
		t.Logf("%s: flows again after %s", what, time.Since(began).Round(100*time.Millisecond))
	}
	flows(t, "start", time.Now())
	for _, victim := range c.victims() {
		for _, f := range faults {
			if !everything() && !slices.Contains(short[victim.name], f.name) {
				continue
			}
			began := time.Now()
			b := victim.of()
			f.do(c, b)
			f.undo(c, b)
			flows(t, victim.name+" "+f.name, began)
		}
	}
	for _, kind := range []string{"admin", "notifier", "writer", "ingest"} {
		began := time.Now()
		for _, old := range c.of(kind) {
			c.add(kind)
			c.remove(kind, old)
		}
		flows(t, kind+" replaced one by one", began)
	}
	began := time.Now()
	writers := c.of("writer")
	c.remove("writer", writers[0])
	flows(t, "one writer", began)
	began = time.Now()
	c.add("writer")
	c.add("writer")
	flows(t, "three writers", began)
	began = time.Now()
	for _, w := range c.of("writer")[1:] {
		c.remove("writer", w)
	}
	flows(t, "one writer again", began)
	l.finish(t)
}

// short are the faults that are most likely to lose or double a record.
var short = map[string][]string{
	"nats":       {"killed"},
	"redis":      {"paused"},
	"clickhouse": {"killed", "cut off"},
	"writer":     {"killed", "paused"},
	"ingest":     {"cut off"},
}

// victim is a container on which faults are inflicted.
type victim struct {
	name string
	of   func() *box
}

// victims are the engines, and the first of each process.
func (c *cluster) victims() []victim {
	list := []victim{
		{"nats", func() *box { return c.nats }},
		{"redis", func() *box { return c.redis }},
		{"clickhouse", func() *box { return c.clickhouse }},
	}
	for _, kind := range []string{"ingest", "writer", "notifier", "admin"} {
		list = append(list, victim{kind, func() *box { return c.of(kind)[0] }})
	}
	return list
}
