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
	"github.com/logboom/logboom/pkg/webhook"
	"github.com/logboom/logboom/pkg/webhook/webhooktest"
)

var formats = []webhook.Format{
	webhook.Slack, webhook.Discord, webhook.Teams, webhook.Mattermost, webhook.RocketChat, webhook.GoogleChat, webhook.Telegram, webhook.Generic,
}

func TestAnEventThatAsksForItReachesItsChatOnceAndSoon(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
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
		w.event(silent, "nobody hears", true)
		sent := time.Now()
		w.event(p, fmt.Sprintf("event %d", i), true)
		w.eventually("it", func() bool { return len(chat.Messages()) >= i+2 })
		waits = append(waits, chat.Messages()[i+1].At.Sub(sent))
	}
	slices.Sort(waits)
	t.Logf("from the queue's answer to the chat: median %s, longest %s", waits[len(waits)/2], waits[len(waits)-1])
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
		t.Errorf("10 events came as %d messages", n)
	}
	if len(w.deliveries(silent)) != 0 || len(chat.Refused()) != 0 {
		t.Errorf("rows without an address: %v; refused %v", w.deliveries(silent), chat.Refused())
	}
	w.secretFree(p)
}

func TestAnEventRightAfterItsAddressWasSetIsDelivered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, chat := w.project(webhook.Slack, "")
	if err := w.store.ClearAlerts(t.Context(), p.Name); err != nil {
		t.Fatal(err)
	}
	n := w.start()
	for i := range 5 {
		if _, err := n.settings.of(t.Context(), p.ID); err != nil { // now it is remembered that there is none
			t.Fatal(err)
		}
		err := w.store.SetAlerts(t.Context(), p.Name, project.Alerts{WebhookURL: project.NewSecret(chat.Address()), Format: "slack"})
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

// tally is what a chat took, held against what was sent to it.
type tally struct {
	singles  map[string]int // by id: how often, without those that say they are repeats, but at least once
	digests  map[string]int // by id: how many it stands for
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
			c.singles[id] = n // a digest's, too: nothing may come so
		}
	}
	return c
}

// events is how many the test below sends: LOGBOOM_NOTIFY_EVENTS, or 1,000.
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
	w := newWorld(t)
	w.cfg.PerWindow, w.attempt = 10, 2*time.Second
	each := events(t) / len(formats)
	var projects []project.Project
	for _, format := range formats {
		p, chat := w.project(format, "")
		chat.SetFaults(webhooktest.Faults{Throttle: 6, Fail: 6, Hang: 2, Reset: 4, Redirect: 4})
		projects = append(projects, p)
	}
	dead, deadChat := w.project(webhook.Mattermost, "")
	deadChat.FailAlways()
	w.event(dead, "never arrives", true)

	sending := make(chan struct{})
	go func() {
		defer close(sending)
		for i := range each {
			for _, p := range projects {
				w.event(p, fmt.Sprintf("event %05d", i), true)
			}
			w.event(dead, "never arrives", true)
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
		w.eventually(fmt.Sprintf("all of %s", p.Name), func() bool { return settled(w, p, each) })
		w.account(t, p, w.chats[i], each)
	}
	t.Logf("%d events, %d kills; the dead destination was asked %d times", each*len(projects), kills, deadChat.Requests())
	w.secretFree(projects...)
}

// settled tells whether every event has come to an end.
func settled(w *world, p project.Project, each int) bool {
	ended := 0
	for id, d := range w.deliveries(p) {
		if !strings.HasPrefix(id, "d-") && (d.State == "delivered" || d.State == "coalesced") {
			ended++
		}
	}
	return ended >= each
}

// account holds what the chat took against the rows: each event was taken by
// itself, or is one of exactly as many as its digest says; and whatever came
// twice said so, or was told by its id.
func (w *world) account(t *testing.T, p project.Project, chat *webhooktest.Chat, each int) {
	t.Helper()
	took := count(chat.Messages())
	single, in := 0, map[string]int{}
	for id, d := range w.deliveries(p) {
		digest := strings.HasPrefix(id, "d-")
		switch d.State {
		case "delivered":
			if !digest {
				single++
			}
			if digest && took.digests[id] == 0 || !digest && took.singles[id] == 0 {
				t.Errorf("%s: %s is delivered by its row, and never came", p.Name, id)
			}
		case "coalesced":
			in[strings.TrimPrefix(d.Detail, "in ")]++
		default:
			t.Errorf("%s: %s is %s: %s", p.Name, id, d.State, d.Detail)
		}
	}
	for id, n := range took.singles {
		if n != 1 {
			t.Errorf("%s: %s came %d times without saying so", p.Name, id, n)
		}
	}
	counted := 0
	for id, n := range took.digests {
		counted += n
		if in[id] != n {
			t.Errorf("%s: digest %s stands for %d, the rows say %d", p.Name, id, n, in[id])
		}
	}
	if single != len(took.singles) || single+counted != each {
		t.Errorf("%s: %d came singly (%d by the rows) and %d in digests, of %d", p.Name, len(took.singles), single, counted, each)
	}
	if bad := chat.Refused(); len(bad) != 0 {
		t.Errorf("%s refused %d: %.300s", p.Name, len(bad), bad[0])
	}
	inOrder(t, p, chat.Messages())
	t.Logf("%-14s %4d messages: %4d events singly, %5d in %3d digests, %d sent again with a note", p.Name, took.received, single, counted, len(took.digests), took.repeats)
}

// inOrder checks that events came as they were sent, but for repeats, and for
// what the service was late to take, after its repeat.
func inOrder(t *testing.T, p project.Project, got []webhooktest.Message) {
	t.Helper()
	last, seen := outbox.Place{}, map[string]bool{}
	for _, g := range got {
		var at outbox.Place
		again := seen[g.ID] || g.Repeat
		seen[g.ID] = true
		if n, err := fmt.Sscanf(g.ID, "%d-%d-%d", &at.Shard, &at.Seq, &at.Idx); n != 3 || err != nil || again {
			continue
		}
		if !after(at, last) {
			t.Errorf("%s: %s came after %v", p.Name, g.ID, last)
		}
		last = at
	}
}
