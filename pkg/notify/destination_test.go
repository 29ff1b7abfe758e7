package notify

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/outbox"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/quota"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/secret"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/webhook"
	"github.com/logboom/logboom/pkg/webhook/webhooktest"
)

func TestManyEventsBecomeADigestWithTheirNumber(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.cfg.PerMinute, w.timing.window = 5, 2*time.Second
	p, chat := w.project(webhook.Discord, "")
	chat.SetFaults(webhooktest.Faults{Fail: 100}) // until all alerts wait
	for i := range 38 {
		w.event(p, fmt.Sprintf("event %d", i), true)
	}
	n := w.start()
	w.eventually("all wait", func() bool { return n.waiting(t) == 38 })
	chat.SetFaults(webhooktest.Faults{})
	w.eventually("all of them", func() bool { return finished(w, p, 38) })
	w.account(t, p, chat, 38)
	got := chat.Messages()
	largest := slices.MaxFunc(got, func(a, b webhooktest.Message) int { return a.Count - b.Count })
	if len(got) > 6 || !strings.HasPrefix(largest.ID, "d-") || !strings.Contains(largest.Body, fmt.Sprintf("and %d more", largest.Count-15)) {
		t.Errorf("%d messages, the largest is %s", len(got), largest.Body)
	}
}

// switchable is a receiver with a changeable answer.
type switchable struct {
	*httptest.Server
	status   atomic.Int32
	requests atomic.Int32
}

func (w *fixture) switchable(status int) (project.Project, *switchable) {
	w.t.Helper()
	p, chat := w.project(webhook.Generic, "")
	s := &switchable{}
	s.status.Store(int32(status))
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		if status := s.status.Load(); status != http.StatusOK {
			http.Error(answer, "not now: "+r.URL.String(), int(status))
			return
		}
		chat.Serve(answer, r)
	}))
	w.t.Cleanup(s.Close)
	w.setAddress(p, s.URL+strings.TrimPrefix(chat.Address(), chat.URL()))
	w.allowed = append(w.allowed, s.Listener.Addr().String())
	return p, s
}

func (w *fixture) setAddress(p project.Project, address string) {
	w.t.Helper()
	if _, err := w.store.ChangeAlerts(w.t.Context(), p.Name, func(a *project.Alerts) { *a = project.Alerts{WebhookURL: secret.New(address), Format: "generic"} }); err != nil {
		w.t.Fatal(err)
	}
}

func (w *fixture) letters(want int) []stream.Letter {
	w.t.Helper()
	var found []stream.Letter
	w.eventually(fmt.Sprintf("%d dead letters", want), func() bool {
		page, err := outbox.NewLetters(w.js, ledger.Committed(w.js)).List(w.t.Context(), 0, 100)
		found = page.Letters
		return err == nil && len(found) == want
	})
	return found
}

func (w *fixture) state(p project.Project, id, state string) {
	w.t.Helper()
	w.eventually(id+" "+state, func() bool { return w.deliveries(p)[id].State == state })
}

func TestARejectedMessageIsDeadLetteredAndItsReplayDeliversIt(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	p, receiver := w.switchable(http.StatusBadRequest)
	w.start()
	w.event(p, "refused at first", true)
	letters := w.letters(1)
	if l := letters[0]; l.Reason != reasonRejected || l.Stream != outbox.Stream || l.Seq == 0 {
		t.Errorf("the letter is %+v", l)
	}
	id := w.only(p, "failed")
	receiver.status.Store(http.StatusOK)
	if _, err := outbox.NewLetters(w.js, ledger.Committed(w.js)).Replay(t.Context(), letters[0].ID); err != nil {
		t.Fatal(err)
	}
	w.state(p, id, "delivered")
	w.letters(0)
	var info stream.Info
	w.eventually("the state of the stream of events", func() (ok bool) {
		var err error
		info, err = w.topology.Info(t.Context(), stream.Name(record.KindEvent, 0))
		return err == nil
	})
	if info.LastSeq > 1 {
		t.Errorf("the replay published to the stream of events: %+v", info)
	}
	w.checkSecrets(p)
}

// only waits until a project's only delivery is in a state, and returns its ID.
func (w *fixture) only(p project.Project, state string) string {
	w.t.Helper()
	id := ""
	w.eventually("a delivery "+state, func() bool {
		for found, d := range w.deliveries(p) {
			id = found
			return d.State == state
		}
		return false
	})
	return id
}

func TestAGoneAddressIsDisabledUntilItIsChanged(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	p, receiver := w.switchable(http.StatusGone)
	w.start()
	for i := range 3 {
		w.event(p, fmt.Sprintf("event %d", i), true)
		w.letters(i + 1)
	}
	if n := receiver.requests.Load(); n != 1 && !w.disturbed() {
		t.Errorf("an address that is gone got %d requests", n)
	}
	for i, l := range w.letters(3) {
		if l.Reason != reasonDisabled {
			t.Errorf("letter %d is %+v", i, l)
		}
	}
	receiver.status.Store(http.StatusOK)
	address := receiver.URL + strings.TrimPrefix(w.chats[0].Address(), w.chats[0].URL())
	w.setAddress(p, address+"?changed=1")
	w.eventually("an event after the change", func() bool { // the change takes effect within a second
		w.event(p, "after the change", true)
		return len(w.chats[0].Messages()) > 0
	})
	w.checkSecrets(p)
}

func TestAChangedAddressEndsTheBackoff(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.timing.firstBackoff, w.timing.maxBackoff = time.Hour, time.Hour
	p, receiver := w.switchable(http.StatusServiceUnavailable)
	w.start()
	w.event(p, "waits", true)
	w.eventually("one attempt", func() bool { return receiver.requests.Load() == 1 })
	w.only(p, "attempt")
	receiver.status.Store(http.StatusOK)
	w.setAddress(p, receiver.URL+strings.TrimPrefix(w.chats[0].Address(), w.chats[0].URL())+"?changed=1")
	w.only(p, "delivered")
}

func TestAMessageIsGivenUpAfterItsTime(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.timing.giveUpGeneric = 10 * time.Second // the first attempt may take long on a slow machine
	p, receiver := w.switchable(http.StatusInternalServerError)
	w.start()
	w.event(p, "never accepted", true)
	if l := w.letters(1)[0]; l.Reason != reasonExpired || receiver.requests.Load() < 2 {
		t.Errorf("after %d attempts: %+v", receiver.requests.Load(), l)
	}
	w.only(p, "failed")
}

func TestAlertsThatWereTurnedOffAreNotSent(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	p, receiver := w.switchable(http.StatusServiceUnavailable)
	w.start()
	w.event(p, "waits", true)
	w.eventually("one attempt", func() bool { return receiver.requests.Load() > 0 })
	if err := w.store.ClearAlerts(t.Context(), p.Name); err != nil {
		t.Fatal(err)
	}
	id := w.only(p, "failed")
	if d := w.deliveries(p)[id]; !strings.Contains(d.Detail, "turned off") {
		t.Errorf("%+v", d)
	}
	w.letters(0)
}

func TestSimilarLogsAreOneMessageWithACount(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	p, chat := w.project(webhook.Mattermost, "error")
	quiet, other := w.project(webhook.Mattermost, "")
	w.logs(p, "ERROR", 17, "before the rules were loaded")
	w.start()
	w.eventually("the rules are loaded", func() bool { return w.loads.Load() > 1 })
	began := time.Now()
	for i := range 20 { // in both shards
		w.logs(p, "ERROR", 17, fmt.Sprintf("user %d timed out after %ds", i, i), fmt.Sprintf("user %d timed out after %ds", i+100, i))
		w.logs(p, "INFO", 9, "all is well")
		w.logs(quiet, "ERROR", 17, "not wanted")
	}
	reported := func() (storm, messages int) {
		for _, g := range chat.Messages() {
			if strings.Contains(g.Body, "timed out") {
				messages++
				n := 0
				if _, text, ok := strings.Cut(g.Body, `"text":"**`); ok {
					_, _ = fmt.Sscanf(text, "%d ×", &n) // a message without a count stands for one log
				}
				storm += max(n, 1)
			}
		}
		return storm, messages
	}
	w.eventually("forty logs are in alerts", func() bool { n, _ := reported(); return n >= 40 })
	n, messages := reported()
	if n != 40 && !w.disturbed() {
		t.Errorf("%d logs are in alerts", n)
	}
	// One message after gather, and one in each groupEvery: four in two seconds.
	if most := 2 + int(time.Since(began)/w.timing.groupEvery); messages > most && !w.disturbed() {
		t.Errorf("%d logs arrived in %d messages, want at most %d", n, messages, most)
	}
	if len(other.Messages()) != 0 {
		t.Errorf("a project that wants no logs got %d", len(other.Messages()))
	}
}

func TestLogsRaiseAlertsAfterFailedReadsOfSettings(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	p, chat := w.project(webhook.Slack, "error")
	w.start()
	w.eventually("the rules are loaded", func() bool { return w.loads.Load() > 1 })
	w.silence.Store(2)
	w.logs(p, "ERROR", 17, "the only one")
	w.eventually("it", func() bool { return len(chat.Messages()) > 0 })
	if got := chat.Messages()[0]; !strings.Contains(got.Body, "the only one") || w.silence.Load() >= 0 {
		t.Errorf("got %+v with %d failing reads left", got, w.silence.Load())
	}
}

func TestLogsRightAfterTheirSeverityWasSetRaiseAlerts(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	first, chat := w.project(webhook.Slack, "")
	second, other := w.project(webhook.Slack, "")
	w.logs(first, "ERROR", 17, "before the severity was set")
	w.start()
	w.eventually("the rules are loaded, without any", func() bool { return w.loads.Load() > 1 })
	for p, to := range map[*project.Project]*webhooktest.Chat{&first: chat, &second: other} {
		_, err := w.store.ChangeAlerts(t.Context(), p.Name, func(a *project.Alerts) { a.MinSeverity = "error" })
		if err != nil {
			t.Fatal(err)
		}
		w.logs(*p, "ERROR", 17, "at once")
		w.eventually("it", func() bool { return len(to.Messages()) > 0 })
		if got := to.Messages()[0]; !strings.Contains(got.Body, "at once") || strings.Contains(got.Body, "before") {
			t.Errorf("got %+v", got)
		}
	}
}

func TestSimilarLogsHaveTheSamePattern(t *testing.T) {
	t.Parallel()
	for _, like := range [][]string{
		{"user 17 timed out after 30s", "user 99 timed out after 2.5s"},
		{"id 4bf92f3577b34da6a3ce929d0e0e4736 failed", "id 00000000000000000000000000000001 failed"},
		{`open "/tmp/a": denied`, `open "/var/log/x y": denied`},
		{"request 6ba7b810-9dad-11d1-80b4-00c04fd430c8 from 10.0.0.1:443", "request 7ba7b811-9dad-11d1-80b4-00c04fd430c8 from 10.9.8.7:80"},
		{"took=5ms  status=500", "took=7ms status=503"},
	} {
		if a, b := pattern(like[0]), pattern(like[1]); a != b || a == "" {
			t.Errorf("%q is %q, and %q is %q", like[0], a, like[1], b)
		}
	}
	for _, unlike := range [][]string{{"disk full", "disk failed"}, {"GET /a", "PUT /a"}} {
		if a, b := pattern(unlike[0]), pattern(unlike[1]); a == b {
			t.Errorf("%q and %q are both %q", unlike[0], unlike[1], a)
		}
	}
}

func FuzzPatternIsBounded(f *testing.F) {
	f.Add("user 17 'x")
	f.Add("\xff\"\x00")
	f.Fuzz(func(t *testing.T, message string) {
		if got := pattern(message); len(got) > maxPattern+len(message) {
			t.Errorf("%d bytes", len(got))
		}
	})
}

func TestQuotaWarningsComeOnceAWindow(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	p, chat := w.project(webhook.Slack, "")
	n := w.start()
	day, month := quota.Windows(p.ID, time.Now())
	limits := func(used, limit int64) []quotaUsage {
		return []quotaUsage{{quota.DailyRecords, day, used, limit}, {quota.MonthlyBytes, month, 0, 0}}
	}
	alerts, err := w.store.Alerts(t.Context(), p.Name)
	if err != nil {
		t.Fatal(err)
	}
	warn := func(used int64) {
		w.eventually("the warning is published", func() bool { return n.warn(t.Context(), p.ID, alerts, limits(used, 100)) == nil })
	}
	for _, used := range []int64{10, 79, 80, 81, 99, 100, 150} {
		warn(used)
	}
	w.eventually("two warnings", func() bool { return len(chat.Messages()) == 2 })
	day.Start = day.Start.Add(24 * time.Hour)
	warn(80)
	w.eventually("the warning of the next window", func() bool { return len(chat.Messages()) == 3 })
	var texts []string
	for _, g := range chat.Messages() {
		texts = append(texts, g.Body)
	}
	for i, want := range []string{"80 %", "is spent", "80 %"} {
		if !strings.Contains(texts[i], want) {
			t.Errorf("warning %d is %s", i, texts[i])
		}
	}
}

func TestPaceRespectsTheWindowAndTheGap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pace{perWindow: 3, window: time.Minute, gap: time.Second}
		began := time.Now()
		var at []time.Duration
		for range 7 {
			time.Sleep(time.Until(p.due(time.Now())))
			p.record(time.Now())
			at = append(at, time.Since(began))
		}
		want := []time.Duration{0, time.Second, 2 * time.Second, time.Minute, 61 * time.Second, 62 * time.Second, 2 * time.Minute}
		if !slices.Equal(at, want) {
			t.Errorf("messages were due at %v, want %v", at, want)
		}
	})
}

func TestRetryPauseGrowsToItsBound(t *testing.T) {
	t.Parallel()
	for attempt, full := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 9: 256 * time.Second, 10: 5 * time.Minute, 1000: 5 * time.Minute} {
		for range 50 {
			if wait := retryPause(attempt, time.Second, 5*time.Minute); wait < full/2 || wait > full {
				t.Errorf("attempt %d waits %s, want %s to %s", attempt, wait, full/2, full)
			}
		}
	}
}
