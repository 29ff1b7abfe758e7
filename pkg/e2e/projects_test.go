package e2e

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/quota"
	"github.com/logboom/logboom/pkg/redis"
)

// call sends a request to the admin API and checks the status.
func (s *system) call(t *testing.T, method, path, body string, status int) answer {
	t.Helper()
	a, tries := insist(t, method, s.admin+"/api/v1"+path, bearer(s.apiKey), []byte(body))
	if a.status != status && (tries == 1 || a.status != outdone[status]) {
		t.Fatalf("%s %s: answer %d, not %d: %s", method, path, a.status, status, a.body)
	}
	return a
}

// outdone is the status of a repeated request if the first one, which was answered
// 503, had succeeded.
var outdone = map[int]int{http.StatusCreated: http.StatusConflict, http.StatusNoContent: http.StatusNotFound}

func (s *system) newProjectToken(t *testing.T, name string) (token, id string) {
	t.Helper()
	s.call(t, http.MethodPost, "/projects", `{"name":"`+name+`"}`, http.StatusCreated)
	a := s.call(t, http.MethodPost, "/projects/"+name+"/tokens", `{"name":"web"}`, http.StatusCreated)
	var made struct{ ID, Name, Token, Last4 string }
	if err := json.Unmarshal(a.body, &made); err != nil || made.Name != "web" || !strings.HasSuffix(made.Token, made.Last4) || len(made.Last4) != 4 {
		t.Fatalf("token: %s", a.body)
	}
	return made.Token, made.ID
}

// A script creates, uses and deletes a project.
func TestProjectIsMadeUsedAndDeleted(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *system) {
		token, _ := s.newProjectToken(t, "orders")
		s.call(t, http.MethodPost, "/projects", `{"name":"orders"}`, http.StatusConflict)
		s.call(t, http.MethodPost, "/projects", `{"name":"Not a name"}`, http.StatusBadRequest)
		orders := *s
		orders.project, orders.token = "orders", token
		orders.send(t, "logs", `{"data":"first"}`, 1)
		orders.until(t, "logs", url.Values{}, func(p page) bool { return len(p.Logs) == 1 })

		alerts := s.call(t, http.MethodPut, "/projects/orders/alerts", `{"webhook_url":"https://hooks.slack.com/services/T0/B0/secretsecret","format":"auto","min_severity":"error"}`, http.StatusOK)
		if strings.Contains(string(alerts.body), "secretsecret") || !strings.Contains(string(alerts.body), "hooks.slack.com") {
			t.Errorf("alerts: %s", alerts.body)
		}
		s.call(t, http.MethodPut, "/projects/orders/settings", `{"retention_days":7}`, http.StatusOK)
		if list := s.call(t, http.MethodGet, "/projects", "", http.StatusOK); !strings.Contains(string(list.body), `"orders"`) {
			t.Errorf("projects: %s", list.body)
		}

		s.call(t, http.MethodDelete, "/projects/orders", "", http.StatusNoContent)
		revoked := time.Now()
		s.call(t, http.MethodGet, "/projects/orders", "", http.StatusNotFound)
		refusedSoon(t, s.ingest, "orders", token, revoked)
		again, _ := s.newProjectToken(t, "orders")
		orders.token = again
		orders.send(t, "logs", `{"data":"of the new project"}`, 1)
		p := orders.until(t, "logs", url.Values{}, func(p page) bool { return len(p.Logs) > 0 })
		if len(p.Logs) != 1 || p.Logs[0].Data != "of the new project" {
			t.Errorf("the old project's logs are shown: %+v", p.Logs)
		}
	})
}

// refusedSoon waits until the token is refused. Two seconds after its revocation a
// token must not be accepted, even if the processes cannot reach each other.
func refusedSoon(t *testing.T, ingest, project, token string, revoked time.Time) {
	t.Helper()
	eventually(t, "the token is refused", func() bool {
		after := time.Since(revoked)
		a := do(t, http.MethodPost, ingest+"/v1/logs/"+project, bearer(token), []byte(`{"data":"late"}`))
		if a.status == http.StatusAccepted && after > 2*time.Second {
			t.Fatalf("%s after it was revoked, the token is accepted", after)
		}
		return a.status == http.StatusUnauthorized
	})
}

func TestRevokedTokenIsRefusedByEveryProcess(t *testing.T) {
	t.Parallel()
	s := separate(t)
	addresses := []string{s.ingest, s.another(t), s.another(t)}
	token, id := s.newProjectToken(t, "orders")
	for _, address := range addresses {
		if a, _ := insist(t, http.MethodPost, address+"/v1/logs/orders", keyed(bearer(token)), []byte(`{"data":"a"}`)); a.status != http.StatusAccepted {
			t.Fatalf("answer %d: %s", a.status, a.body)
		}
	}
	s.call(t, http.MethodDelete, "/projects/orders/tokens/"+id, "", http.StatusNoContent)
	revoked := time.Now()
	for _, address := range addresses {
		refusedSoon(t, address, "orders", token, revoked)
	}
}

// A request over a quota is refused with all that a client needs to know, and is
// counted in the usage.
func TestQuotaIsEnforcedAndLossIsShown(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *system) {
		s = s.projectInMidDay(t, "orders")
		s.send(t, "logs", `[{"data":"a"},{"data":"b"},{"data":"c"}]`, 3)
		s.call(t, http.MethodPut, "/projects/"+s.project+"/settings", `{"daily_records":10}`, http.StatusOK)
		var refused answer
		accepted := 3
		eventually(t, "the quota is enforced", func() bool { // the setting reaches ingest within 2 s
			refused, _ = s.post(t, "logs", `[{"data":"a"},{"data":"b"},{"data":"c"}]`)
			if refused.status == http.StatusAccepted {
				accepted += 3
			}
			return refused.status != http.StatusAccepted
		})
		var p struct {
			Code, Quota string
			Reset       time.Time
		}
		if err := json.Unmarshal(refused.body, &p); err != nil || refused.status != http.StatusTooManyRequests || p.Code != "quota_exceeded" || p.Quota != "daily_records" || !p.Reset.After(time.Now()) {
			t.Fatalf("answer %d: %s", refused.status, refused.body)
		}
		for _, name := range []string{"Retry-After", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"} {
			if refused.header.Get(name) == "" {
				t.Errorf("no header %s: %v", name, refused.header)
			}
		}
		var usage struct {
			Totals struct {
				Stored  int
				Dropped map[string]int
			}
		}
		eventually(t, "the usage shows what was stored and dropped", func() bool {
			s.call(t, http.MethodGet, "/projects/"+s.project+"/usage", "", http.StatusOK).decode(t, &usage)
			return usage.Totals.Stored == accepted && usage.Totals.Dropped["daily_records"] > 0
		})
		if logs := s.all(t, "logs", url.Values{}).Logs; len(logs) != accepted {
			t.Errorf("%d logs were accepted and %d are stored", accepted, len(logs))
		}
	})
}

// After a kill, and after Redis was flushed, the processes read from the usage what
// a project has sent.
func TestSpentQuotaSurvivesTheLossOfItsCounters(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *system) {
		orders := s.projectInMidDay(t, "orders")
		s.call(t, http.MethodPut, "/projects/"+orders.project+"/settings", `{"daily_records":1000}`, http.StatusOK)
		orders.send(t, "logs", strings.Repeat(`{"data":"a"}`+"\n", 1500), 1500)
		eventually(t, "the usage is stored", func() bool {
			var usage struct{ Totals struct{ Stored int } }
			s.call(t, http.MethodGet, "/projects/"+orders.project+"/usage", "", http.StatusOK).decode(t, &usage)
			return usage.Totals.Stored == 1500
		})
		s.forget(t)
		orders.ingest, orders.admin = s.ingest, s.admin
		eventually(t, "the quota is spent again", func() bool { // long before another 1000 records could be sent
			return do(t, http.MethodPost, orders.ingest+"/v1/logs/"+orders.project, bearer(orders.token), []byte(`{"data":"b"}`)).status == http.StatusTooManyRequests
		})
	})
}

// projectInMidDay creates a project whose day neither began within this hour nor
// ends within the next one. Usage is counted by the hour, so an hour that began
// before the day is not counted, and a new day restores the whole quota.
func (s *system) projectInMidDay(t *testing.T, name string) *system {
	t.Helper()
	for i := range 100 {
		orders := *s
		orders.project = fmt.Sprintf("%s-%d", name, i)
		orders.token, _ = s.newProjectToken(t, orders.project)
		var p struct{ ID string }
		s.call(t, http.MethodGet, "/projects/"+orders.project, "", http.StatusOK).decode(t, &p)
		hour := time.Now().Truncate(time.Hour)
		if day, _ := quota.Windows(p.ID, time.Now()); p.ID != "" && day.Start.Before(hour) && day.End.After(hour.Add(2*time.Hour)) {
			return &orders
		}
	}
	t.Fatal("every project's day begins now")
	return nil
}

// forget kills all processes, flushes Redis if there is one, and starts the
// processes again.
func (s *system) forget(t *testing.T) {
	t.Helper()
	for _, p := range s.processes {
		p.kill()
	}
	if s.cache != nil {
		s.flush(t)
	}
	s.restart(t)
}

// flush empties Redis.
func (s *system) flush(t *testing.T) {
	t.Helper()
	client, err := redis.Open(s.cache.URL(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	eventually(t, "redis is flushed", func() bool { return client.FlushAll(t.Context()).Err() == nil })
}
