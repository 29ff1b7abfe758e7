package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/admin/admintest"
	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/people"
	"github.com/logboom/logboom/pkg/project"
	wire "github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

// insertEvents stores events of a project, one minute apart, the newest from now.
func (s *site) insertEvents(t *testing.T, p project.Project, seq uint64, events ...wire.Event) {
	t.Helper()
	var block clickhouse.EventBlock
	for i := range events {
		at := s.now.Add(-time.Duration(i) * time.Minute)
		events[i].Timestamp = at.UnixNano()
		block.Append(clickhouse.Row{Seq: seq, Idx: uint32(i), Received: at.UnixNano(), Project: p.ID, RetentionDays: 30}, &events[i])
	}
	if err := s.Client.InsertEvents(admintest.Context(t), fmt.Sprint(p.ID, seq), &block); err != nil {
		t.Fatal(err)
	}
}

func TestEventsAreShownWithTheirDelivery(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	shop, other := s.Project(t, "shop"), s.Project(t, "other")
	s.insertEvents(t, shop, 1, wire.Event{Channel: "deploys", Title: "v1 is live", Icon: "🚀", Notify: true, Tags: []wire.Pair{{Key: "sha", Value: "abc"}}}, wire.Event{Channel: "orders", Title: "large order", Description: "1,249 EUR"})
	s.insertEvents(t, other, 2, wire.Event{Channel: "secret", Title: "of others"})
	rows := []clickhouse.DeliveryRow{
		{Project: shop.ID, Time: s.now.Add(-time.Minute).UnixNano(), Event: "0-1-0", Destination: "hooks.slack.com …WXYZ", Format: "slack", Attempt: 1, State: clickhouse.DeliveryAttempt, Status: 429, Answer: "<b>slow</b>"},
		{Project: shop.ID, Time: s.now.UnixNano(), Event: "0-1-0", Destination: "hooks.slack.com …WXYZ", Format: "slack", Attempt: 2, State: clickhouse.DeliveryDelivered, Status: 200, Answer: "ok"},
	}
	if err := s.Client.InsertDeliveries(admintest.Context(t), "d", rows); err != nil {
		t.Fatal(err)
	}
	member := s.as(t, s.user(t, "member@example.org", people.RoleMember, shop))
	page := member.body("/projects/shop/events", http.StatusOK)
	for _, want := range []string{"v1 is live", "large order", "🚀", "sha=abc", "Slack, just now", "#deploys"} {
		if !strings.Contains(page, want) {
			t.Errorf("the feed has no %s", want)
		}
	}
	if strings.Contains(page, "of others") || strings.Contains(page, "secret") {
		t.Error("the feed shows another project's events")
	}
	page = member.body("/projects/shop/events?event=0-1-0", http.StatusOK)
	for _, want := range []string{"Attempt 1 failed", "429 &lt;b&gt;slow&lt;/b&gt;", "Delivered", "200 ok", "Logs 5 min around it"} {
		if !strings.Contains(page, want) {
			t.Errorf("the event has no %s", want)
		}
	}
	if page := member.body("/projects/shop/events?channel=orders&q="+url.QueryEscape("large OR small"), http.StatusOK); strings.Contains(page, "v1 is live") || !strings.Contains(page, "large order") {
		t.Error("a channel shows another's events")
	}
	member.body("/projects/shop/events?q="+url.QueryEscape("(a"), http.StatusBadRequest)
	for _, gone := range []string{"/projects/shop/events?event=0-2-0", "/projects/shop/events?event=x", "/projects/shop/events?cursor=x", "/projects/other/events"} {
		member.body(gone, http.StatusNotFound)
	}
}

func TestOperationsAreForAdministratorsOnly(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	shop := s.Project(t, "shop")
	topology, err := stream.Open(admintest.Context(t), s.Queue, stream.Config{Shards: 1, MaxBytes: 8 << 20, DeadMaxBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if err := topology.PublishDeadLetter(admintest.Context(t), stream.DeadLetter{Reason: "too_large", Stream: "none", Detail: "<script>alert(1)</script>", Data: []byte("raw \x1b[2J<b>bytes</b>"), Time: time.Now()}); err != nil {
		t.Fatal(err)
	}
	member, limited := s.as(t, s.user(t, "member@example.org", people.RoleMember, shop)), s.as(t, s.user(t, "limited@example.org", people.RoleAdmin, shop))
	for _, v := range []*visitor{member, limited} {
		for _, path := range []string{"/operations", "/operations/dead-letters/1"} {
			v.body(path, http.StatusForbidden)
		}
		if answer := v.post("/operations/dead-letters/replay", url.Values{"id": {"1"}}); answer.Code != http.StatusForbidden {
			t.Errorf("a replay is answered %d", answer.Code)
		}
	}
	admin := s.as(t, s.user(t, "admin@example.org", people.RoleAdmin))
	page := admin.body("/operations", http.StatusOK)
	for _, want := range []string{"LOGS_0", "EVENTS_0", "NATS JetStream", "ClickHouse", "1 dead letter to check", "too large", "&lt;script&gt;"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	if page := admin.body("/operations/dead-letters/1", http.StatusOK); !strings.Contains(page, `<span class="ctl">␛</span>[2J&lt;b&gt;bytes`) {
		t.Errorf("the letter is not shown as text:\n%s", page)
	}
	for _, gone := range []string{"/operations/dead-letters/9", "/operations/dead-letters/0", "/operations/dead-letters/x"} {
		admin.body(gone, http.StatusNotFound)
	}
	if answer := admin.post("/operations/dead-letters/replay", url.Values{"id": {"1"}}); answer.Code != http.StatusConflict || !strings.Contains(answer.Body.String(), "stays among the dead letters") {
		t.Errorf("a letter that never was on a stream: answer %d: %s", answer.Code, answer.Body)
	}
}
