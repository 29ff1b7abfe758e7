package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/webhook"
	"github.com/logboom/logboom/pkg/webhook/webhooktest"
)

// reaching returns the settings that allow processes to reach the chat of a test.
func reaching(t *testing.T, chat *webhooktest.Chat) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "chat.pem")
	if err := os.WriteFile(file, chat.Certificate(), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"LOGBOOM_WEBHOOK_ALLOW=" + chat.HostPort(), "SSL_CERT_FILE=" + file}
}

// alertsTo sends the project's alerts to a chat, and sends a test message. It
// returns the number of messages that the chat has received.
func (s *system) alertsTo(t *testing.T, chat *webhooktest.Chat) (messages int) {
	t.Helper()
	body, err := json.Marshal(map[string]string{"webhook_url": chat.Address(), "format": string(chat.Format)})
	if err != nil {
		t.Fatal(err)
	}
	root := s.admin + "/api/v1/projects/" + s.project
	if a, _ := insist(t, http.MethodPut, root+"/alerts", bearer(s.apiKey), body); a.status != http.StatusOK || strings.Contains(string(a.body), webhooktest.Secret) {
		t.Fatalf("answer %d: %s", a.status, a.body)
	}
	a, tries := insist(t, http.MethodPost, root+"/alerts/test", bearer(s.apiKey), nil)
	var result struct {
		State  string `json:"state"`
		Status int    `json:"status"`
		Answer string `json:"answer"`
	}
	a.decode(t, &result)
	messages = len(chat.Messages())
	if a.status != http.StatusOK || result.State != "delivered" || result.Status != http.StatusOK || result.Answer != "ok" || messages < 1 || messages > tries {
		t.Fatalf("test message: answer %d: %s; refused: %v", a.status, a.body, chat.Refused())
	}
	return messages
}

type delivery struct {
	ID       string `json:"id"`
	State    string `json:"state"`
	Attempts int    `json:"attempts"`
	Status   int    `json:"status"`
	Detail   string `json:"detail"`
}

// deliveries reads all pages of deliveries.
func (s *system) deliveries(t *testing.T) map[string]delivery {
	t.Helper()
	found, cursor := map[string]delivery{}, ""
	for {
		a := s.look(t, s.project, "deliveries", url.Values{"limit": {"50"}, "cursor": {cursor}})
		var page struct {
			Deliveries []delivery `json:"deliveries"`
			Next       string     `json:"next"`
		}
		if a.decode(t, &page); a.status != http.StatusOK {
			t.Fatalf("deliveries: answer %d: %s", a.status, a.body)
		}
		for _, d := range page.Deliveries {
			found[d.ID] = d
		}
		if cursor = page.Next; cursor == "" {
			return found
		}
	}
}

func TestAlertsReachAChatThroughStandalone(t *testing.T) {
	t.Parallel()
	chat := webhooktest.Start(t, webhook.Slack, "")
	p := spawn(t, "standalone", []string{
		"--data-dir=" + t.TempDir(), "--ingest-addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0", "--ops-addr=127.0.0.1:0", "--stream-bytes=256MiB", "--log-level=debug",
	}, reaching(t, chat))
	p.await("ready", func(line string) bool { return strings.Contains(line, "process ready") })
	s := &system{project: "demo", ingest: "http://" + p.attribute("ingest port open", "addr"), admin: "http://" + p.attribute("admin port open", "addr")}
	s.token, s.apiKey = welcomed["token"].FindStringSubmatch(p.output())[1], welcomed["API key"].FindStringSubmatch(p.output())[1]
	first := s.alertsTo(t, chat)
	s.send(t, "events", `{"channel":"deploys","title":"quiet"}`, 1)
	s.send(t, "events", `{"channel":"deploys","title":"v2 is <out> @everyone","notify":true,"icon":"🚀","tags":{"by":"ci"}}`, 1)
	eventually(t, "the event is in the chat", func() bool { return len(chat.Messages()) > first })
	id := chat.Messages()[first].ID
	eventually(t, "its delivery is shown", func() bool {
		d := s.deliveries(t)[id]
		return d.State == "delivered" && d.Attempts >= chat.Requests()-first && d.Status == http.StatusOK
	})
	for _, got := range chat.Messages()[first:] {
		if got.ID != id {
			t.Errorf("the chat received %s, and should receive only %s", got.ID, id)
		}
	}
	found := s.until(t, "events", url.Values{"limit": {"10"}}, func(p page) bool { return len(p.Events) == 2 })
	if found.Events[0].ID != id && found.Events[1].ID != id {
		t.Errorf("the chat received %s, and these are stored: %+v", id, found.Events)
	}
	if secret := s.look(t, "demo", "alerts/secret", nil); !strings.Contains(string(secret.body), `"whsec_`) {
		t.Errorf("the signing secret is %s", secret.body)
	}
	p.stop()
	p.secretFree(webhooktest.Secret, s.token, s.apiKey)
}

func TestKilledNotifiersLoseNoEvent(t *testing.T) {
	t.Parallel()
	chat := webhooktest.Start(t, webhook.Mattermost, "")
	env := reaching(t, chat)
	s := separate(t, env...)
	env = append(env, "LOGBOOM_NATS_URL="+s.queue, "LOGBOOM_CLICKHOUSE_URL="+s.tables, "LOGBOOM_OPS_ADDR=127.0.0.1:0", "LOGBOOM_STREAM_BYTES=256MiB",
		"LOGBOOM_SECRET_KEY=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "LOGBOOM_ALERTS_PER_MINUTE=1000")
	start := func() *process {
		p := spawn(t, "notifier", nil, env)
		p.await("ready", func(line string) bool { return strings.Contains(line, "process ready") })
		return p
	}
	running := []*process{start(), start()}
	first := s.alertsTo(t, chat)
	chat.SetFaults(webhooktest.Faults{Throttle: 3, Fail: 3, Reset: 3}) // each costs about a second: these are the real pauses
	const events, kills = 60, 3
	for i := range events {
		s.send(t, "events", fmt.Sprintf(`{"channel":"load","title":"event %d","notify":true}`, i), 1)
		if i%(events/kills) == events/kills/2 {
			victim := rand.IntN(len(running))
			running[victim].kill()
			running[victim].secretFree(webhooktest.Secret)
			running[victim] = start()
		}
	}
	within(t, 5*time.Minute, "every event is delivered or in a digest", func() bool { // some digests are sent only at the end of the minute
		ended := 0
		for id, d := range s.deliveries(t) {
			if !strings.HasPrefix(id, "d-") && (d.State == "delivered" || d.State == "coalesced") {
				ended++
			}
		}
		return ended == events
	})
	counted, seen := 0, map[string]bool{}
	for _, got := range chat.Messages()[first:] {
		if seen[got.ID] && !got.Repeat {
			t.Errorf("%s came twice without saying so", got.ID)
		}
		if !seen[got.ID] {
			counted += got.Count
		}
		seen[got.ID] = true
	}
	if counted != events || len(chat.Refused()) != 0 {
		t.Errorf("%d of %d events are in the chat; it refused %v", counted, events, chat.Refused())
	}
	for _, p := range running {
		p.stop()
		p.secretFree(webhooktest.Secret, s.token)
	}
}
