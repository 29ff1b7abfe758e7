package notify

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/outbox"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/secret"
	"github.com/logboom/logboom/pkg/webhook"
	"github.com/logboom/logboom/pkg/webhook/webhooktest"
)

var formats = []webhook.Format{
	webhook.Slack, webhook.Discord, webhook.Teams, webhook.Mattermost, webhook.RocketChat, webhook.GoogleChat, webhook.Telegram, webhook.Generic,
}

func TestAnEventWithAnAlertReachesItsChatOnceAndSoon(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	p, chat := w.project(webhook.Slack, "")
	silent, err := w.store.CreateProject(t.Context(), "without-an-address")
	if err != nil {
		t.Fatal(err)
	}
	w.start()
	w.event(p, "the first", true)
	w.eventually("the first", func() bool { return len(chat.Messages()) == 1 })
	var waits []time.Duration
	for i := range 9 {
		w.event(p, "quiet", false)
		w.event(silent, "no address", true)
		sent := time.Now()
		w.event(p, fmt.Sprintf("event %d", i), true)
		w.eventually("it", func() bool { return len(chat.Messages()) >= i+2 })
		waits = append(waits, chat.Messages()[i+1].At.Sub(sent))
	}
	slices.Sort(waits)
	t.Logf("from the queue to the chat: median %s, longest %s", waits[len(waits)/2], waits[len(waits)-1])
	w.eventually("the rows", func() bool {
		found := w.deliveries(p)
		for _, d := range found {
			if d.State != "delivered" || d.Attempts != 1 && !w.disturbed() || d.Format != "slack" || !strings.Contains(d.Destination, "/…") {
				return false
			}
		}
		return len(found) == 10
	})
	if n := len(chat.Messages()); n != 10 && !w.disturbed() {
		t.Errorf("10 events arrived as %d messages", n)
	}
	if len(w.deliveries(silent)) != 0 || len(chat.Refused()) != 0 {
		t.Errorf("rows without an address: %v; refused %v", w.deliveries(silent), chat.Refused())
	}
	w.checkSecrets(p)
}

func TestAnEventRightAfterItsAddressWasSetIsDelivered(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	p, chat := w.project(webhook.Slack, "")
	if err := w.store.ClearAlerts(t.Context(), p.Name); err != nil {
		t.Fatal(err)
	}
	n := w.start()
	for i := range 5 {
		if _, err := n.alerts.load(t.Context(), p.ID); err != nil { // now the cache holds that there is no address
			t.Fatal(err)
		}
		_, err := w.store.ChangeAlerts(t.Context(), p.Name, func(a *project.Alerts) { *a = project.Alerts{WebhookURL: secret.New(chat.Address()), Format: "slack"} })
		if err != nil {
			t.Fatal(err)
		}
		w.event(p, "at once", true)
		w.eventually("it, and its row", func() bool {
			found := w.deliveries(p)
			for _, d := range found {
				if d.State != "delivered" {
					return false
				}
			}
			return len(found) == i+1 && len(chat.Messages()) > i
		})
		if err := w.store.ClearAlerts(t.Context(), p.Name); err != nil {
			t.Fatal(err)
		}
	}
}

// tally counts the messages that a chat accepted.
type tally struct {
	singles  map[string]int // by ID: how often, not counting marked repeats, but at least 1
	digests  map[string]int // by ID: how many alerts it stands for
	repeats  int
	received int
}

func count(got []webhooktest.Message) tally {
	c, plain := tally{singles: map[string]int{}, digests: map[string]int{}}, map[string]int{}
	for _, g := range got {
		c.received++
		if g.Repeat {
			c.repeats++
		} else {
			plain[g.ID]++
		}
		if strings.HasPrefix(g.ID, "d-") {
			c.digests[g.ID] = g.Count
		} else {
			c.singles[g.ID] = 1
		}
	}
	for id, n := range plain {
		if n > 1 {
			c.singles[id] = n // also for digests: an unmarked repeat is an error
		}
	}
	return c
}

// events returns how many events the test below sends: LOGBOOM_NOTIFY_EVENTS, or
// 1,000.
func events(t *testing.T) int {
	t.Helper()
	text := os.Getenv("LOGBOOM_NOTIFY_EVENTS")
	if text == "" {
		return 1000
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestEveryEventIsDeliveredOnceOrCountedInADigestWhileNotifiersAreKilled(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.cfg.PerMinute, w.attempt = 10, 2*time.Second
	each := events(t) / len(formats)
	var projects []project.Project
	for _, format := range formats {
		p, chat := w.project(format, "")
		chat.SetFaults(webhooktest.Faults{Throttle: 6, Fail: 6, Hang: 2, Reset: 4, Redirect: 4})
		projects = append(projects, p)
	}
	failing, failingChat := w.project(webhook.Mattermost, "")
	failingChat.FailAlways()
	w.event(failing, "never arrives", true)

	sending := make(chan struct{})
	go func() {
		defer close(sending)
		for i := range each {
			for _, p := range projects {
				w.event(p, fmt.Sprintf("event %05d", i), true)
			}
			w.event(failing, "never arrives", true)
		}
	}()
	running := []*notifier{w.start(), w.start()}
	kills := 0
	for done := false; !done || kills < 3; kills++ {
		select {
		case <-sending:
			done = true
		case <-time.After(time.Duration(500+rand.IntN(1500)) * time.Millisecond):
		}
		victim := kills % 2
		running[victim].kill()
		running[victim] = w.start()
	}
	for i, p := range projects {
		w.eventually(fmt.Sprintf("all of %s", p.Name), func() bool { return finished(w, p, each) })
		w.account(t, p, w.chats[i], each)
	}
	t.Logf("%d events, %d kills; the failing destination got %d requests", each*len(projects), kills, failingChat.Requests())
	w.checkSecrets(projects...)
}

// finished reports whether every event is delivered.
func finished(w *fixture, p project.Project, each int) bool {
	ended := 0
	for id, d := range w.deliveries(p) {
		if !strings.HasPrefix(id, "d-") && (d.State == "delivered" || d.State == "coalesced") {
			ended++
		}
	}
	return ended >= each
}

// account compares the accepted messages with the rows. Each event was accepted
// alone or is counted in one digest, and every repeat was marked or recognised by
// its ID.
func (w *fixture) account(t *testing.T, p project.Project, chat *webhooktest.Chat, each int) {
	t.Helper()
	accepted := count(chat.Messages())
	single, in := 0, map[string]int{}
	for id, d := range w.deliveries(p) {
		digest := strings.HasPrefix(id, "d-")
		switch d.State {
		case "delivered":
			if !digest {
				single++
			}
			if digest && accepted.digests[id] == 0 || !digest && accepted.singles[id] == 0 {
				t.Errorf("%s: %s is delivered according to its row, but never arrived", p.Name, id)
			}
		case "coalesced":
			in[strings.TrimPrefix(d.Detail, "in ")]++
		default:
			t.Errorf("%s: %s is %s: %s", p.Name, id, d.State, d.Detail)
		}
	}
	for id, n := range accepted.singles {
		if n != 1 {
			t.Errorf("%s: %s arrived %d times without a mark", p.Name, id, n)
		}
	}
	counted := 0
	for id, n := range accepted.digests {
		counted += n
		if in[id] != n {
			t.Errorf("%s: digest %s stands for %d, the rows say %d", p.Name, id, n, in[id])
		}
	}
	if single != len(accepted.singles) || single+counted != each {
		t.Errorf("%s: %d arrived alone (%d according to the rows) and %d in digests, of %d", p.Name, len(accepted.singles), single, counted, each)
	}
	if bad := chat.Refused(); len(bad) != 0 {
		t.Errorf("%s refused %d: %.300s", p.Name, len(bad), bad[0])
	}
	inOrder(t, p, chat.Messages())
	t.Logf("%-14s %4d messages: %4d events alone, %5d in %3d digests, %d sent again with a note", p.Name, accepted.received, single, counted, len(accepted.digests), accepted.repeats)
}

// inOrder checks that events arrived in the order in which they were sent. It
// skips repeats, and messages that the service accepted after their repeat.
func inOrder(t *testing.T, p project.Project, got []webhooktest.Message) {
	t.Helper()
	last, seen := outbox.EventPosition{}, map[string]bool{}
	for _, g := range got {
		var at outbox.EventPosition
		again := seen[g.ID] || g.Repeat
		seen[g.ID] = true
		if n, err := fmt.Sscanf(g.ID, "%d-%d-%d", &at.Shard, &at.Seq, &at.Idx); n != 3 || err != nil || again {
			continue
		}
		if !after(at, last) {
			t.Errorf("%s: %s arrived after %v", p.Name, g.ID, last)
		}
		last = at
	}
}
