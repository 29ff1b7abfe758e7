package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/admin/admintest"
	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/people"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/secret"
	"github.com/logboom/logboom/pkg/webhook"
	"github.com/logboom/logboom/pkg/webhook/webhooktest"
)

// alerting returns a server that can reach a chat, with a project whose alerts go
// there.
func (b *bench) alerting(t *testing.T, chat *webhooktest.Chat) *testServer {
	t.Helper()
	b.Project(t, "shop")
	allow, err := webhook.ParseAllowList([]string{chat.HostPort()})
	if err != nil {
		t.Fatal(err)
	}
	b.Deps.Webhooks = webhook.NewSender(webhook.Config{Allow: allow, Roots: chat.Roots()})
	_, err = b.Projects.ChangeAlerts(admintest.Context(t), "shop", func(a *project.Alerts) {
		*a = project.Alerts{WebhookURL: secret.New(chat.Address()), Format: string(chat.Format)}
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.server()
}

func TestTestMessageReportsItsResult(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	chat := webhooktest.Start(t, webhook.Telegram, "")
	s := b.alerting(t, chat)
	const path = "/api/v1/projects/shop/alerts/test"
	answer := b.do(t, s, http.MethodPost, path, "")
	if r := decoded[testResult](t, answer); answer.Code != http.StatusOK || r.State != "delivered" || r.Status != http.StatusOK || len(chat.Messages()) != 1 {
		t.Errorf("%d: %s; refused %v", answer.Code, answer.Body, chat.Refused())
	}
	chat.FailAlways()
	answer = b.do(t, s, http.MethodPost, path, "")
	if r := decoded[testResult](t, answer); r.State != "failed" || r.Status != http.StatusInternalServerError || r.Answer == "" || strings.Contains(answer.Body.String(), webhooktest.Secret) {
		t.Errorf("%s", answer.Body)
	}
	if _, err := b.Projects.ChangeAlerts(admintest.Context(t), "shop", func(a *project.Alerts) {
		*a = project.Alerts{WebhookURL: secret.New("https://169.254.169.254/" + webhooktest.Secret)}
	}); err != nil {
		t.Fatal(err)
	}
	answer = b.do(t, s, http.MethodPost, path, "")
	if r := decoded[testResult](t, answer); r.State != "refused" || r.Status != 0 || strings.Contains(answer.Body.String(), webhooktest.Secret) {
		t.Errorf("%s", answer.Body)
	}
	if err := b.Projects.ClearAlerts(admintest.Context(t), "shop"); err != nil {
		t.Fatal(err)
	}
	if answer := b.do(t, s, http.MethodPost, path, ""); answer.Code != http.StatusBadRequest {
		t.Errorf("without an address: %d %s", answer.Code, answer.Body)
	}
	if strings.Contains(b.Log.String(), webhooktest.Secret) {
		t.Error("the log shows an address")
	}
}

func TestSigningSecretIsOnlyForManagersOfTheProject(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.alerting(t, webhooktest.Start(t, webhook.Generic, ""))
	const path = "/api/v1/projects/shop/alerts/secret"
	if r := decoded[signingSecret](t, b.do(t, s, http.MethodGet, path, "")); !strings.HasPrefix(r.Secret, "whsec_") {
		t.Errorf("%+v", r)
	}
	if answer := send(s, http.MethodGet, path, b.apiKey(t, people.RoleMember), ""); answer.Code != http.StatusForbidden {
		t.Errorf("for a member: %d", answer.Code)
	}
}

func TestDeliveriesAreListedByPageAndState(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.alerting(t, webhooktest.Start(t, webhook.Slack, ""))
	shop, err := b.Projects.Project(admintest.Context(t), "shop")
	if err != nil {
		t.Fatal(err)
	}
	var rows []clickhouse.DeliveryRow
	for i := range 5 {
		rows = append(rows, clickhouse.DeliveryRow{Project: shop.ID, Time: time.Now().UnixNano() + int64(i), Event: fmt.Sprintf("0-%d-0", i), State: clickhouse.DeliveryState(3 + i%2)})
	}
	if err := b.Client.InsertDeliveries(t.Context(), "token", rows); err != nil {
		t.Fatal(err)
	}
	const path = "/api/v1/projects/shop/deliveries"
	first := decoded[clickhouse.DeliveryPage](t, b.do(t, s, http.MethodGet, path+"?limit=3", ""))
	if len(first.Deliveries) != 3 || first.Next == "" || first.Deliveries[0].ID != "0-4-0" {
		t.Fatalf("%+v", first)
	}
	if last := decoded[clickhouse.DeliveryPage](t, b.do(t, s, http.MethodGet, path+"?limit=3&cursor="+first.Next, "")); len(last.Deliveries) != 2 || last.Next != "" {
		t.Errorf("%+v", last)
	}
	if failed := decoded[clickhouse.DeliveryPage](t, b.do(t, s, http.MethodGet, path+"?state=failed", "")); len(failed.Deliveries) != 2 {
		t.Errorf("%+v", failed)
	}
	for _, query := range []string{"?state=lost", "?cursor=x", "?limit=0", "?from=x"} {
		if answer := b.do(t, s, http.MethodGet, path+query, ""); answer.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", query, answer.Code, answer.Body)
		}
	}
}
