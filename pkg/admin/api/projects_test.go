package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/logboom/logboom/pkg/admin"
	"github.com/logboom/logboom/pkg/admin/admintest"
	"github.com/logboom/logboom/pkg/people"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/token"
)

// decoded decodes an answer's body.
func decoded[T any](t *testing.T, answer *httptest.ResponseRecorder) T {
	t.Helper()
	var value T
	if err := json.Unmarshal(answer.Body.Bytes(), &value); err != nil {
		t.Fatalf("answer %d: %v: %s", answer.Code, err, answer.Body)
	}
	return value
}

// refusal is the part of a problem that scripts branch on.
type refusal struct{ Code, Field, Detail string }

func TestEveryRouteAnswersItsStatuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.server()
	long := strings.Repeat("a", 41)
	for _, tc := range []struct {
		method, path, body string
		status             int
		code, field        string
	}{
		{"POST", "/projects", `{"name":"shop"}`, 201, "", ""},
		{"POST", "/projects", ` {"name" : "a.b_c-1"} `, 201, "", ""},
		{"POST", "/projects", `{"name":"shop"}`, 409, "name_taken", ""},
		{"POST", "/projects", `{"name":"Shop"}`, 400, "invalid_field", "name"},
		{"POST", "/projects", `{"name":""}`, 400, "invalid_field", "name"},
		{"POST", "/projects", `{"name":".."}`, 400, "invalid_field", "name"},
		{"POST", "/projects", `{"name":"` + long + `"}`, 400, "invalid_field", "name"},
		{"POST", "/projects", `{"name":7}`, 400, "invalid_field", "name"},
		{"POST", "/projects", `{"name":null}`, 400, "invalid_field", "name"},
		{"POST", "/projects", `{"name":["a"]}`, 400, "invalid_field", "name"},
		{"POST", "/projects", `{"name":"x","name":"y"}`, 400, "invalid_field", "name"},
		{"POST", "/projects", `{"name":"x","colour":"red"}`, 400, "invalid_field", "colour"},
		{"POST", "/projects", `{"Name":"x"}`, 400, "invalid_field", "Name"},
		{"POST", "/projects", `{}`, 400, "missing_field", "name"},
		{"POST", "/projects", ``, 400, "empty_body", ""},
		{"POST", "/projects", `["x"]`, 400, "invalid_json", ""},
		{"POST", "/projects", `{"name":"x"`, 400, "invalid_json", ""},
		{"POST", "/projects", `{"name":"x"}{}`, 400, "invalid_json", ""},
		{"POST", "/projects", `{"name":x}`, 400, "invalid_json", ""},
		{"POST", "/projects", "{\"name\":\"\xff\"}", 400, "invalid_json", ""},
		{"POST", "/projects", `{"name":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, 400, "invalid_json", ""},
		{"POST", "/projects", `{"name":"` + strings.Repeat("a", maxBodyBytes) + `"}`, 413, "body_too_large", ""},
		{"GET", "/projects", "", 200, "", ""},
		{"GET", "/projects?limit=0", "", 400, "invalid_field", "limit"},
		{"GET", "/projects?limit=1001", "", 400, "invalid_field", "limit"},
		{"GET", "/projects?cursor=%00", "", 400, "invalid_field", "cursor"},
		{"GET", "/projects/shop", "", 200, "", ""},
		{"GET", "/projects/nobody", "", 404, "not_found", ""},
		{"GET", "/projects/%2e%2e", "", 404, "not_found", ""},
		{"POST", "/projects/shop/tokens", `{"name":"ci"}`, 201, "", ""},
		{"POST", "/projects/shop/tokens", `{"name":"ci"}`, 201, "", ""}, // a label, not a name
		{"POST", "/projects/shop/tokens", `{"name":""}`, 400, "invalid_field", "name"},
		{"POST", "/projects/shop/tokens", `{"name":"a\nb"}`, 400, "invalid_field", "name"},
		{"POST", "/projects/shop/tokens", `{}`, 400, "missing_field", "name"},
		{"POST", "/projects/nobody/tokens", `{"name":"ci"}`, 404, "not_found", ""},
		{"GET", "/projects/shop/tokens", "", 200, "", ""},
		{"GET", "/projects/shop/tokens?cursor=x", "", 400, "invalid_field", "cursor"},
		{"GET", "/projects/nobody/tokens", "", 404, "not_found", ""},
		{"DELETE", "/projects/shop/tokens/" + strings.Repeat("0", 32), "", 404, "not_found", ""},
		{"DELETE", "/projects/shop/tokens/x", "", 404, "not_found", ""},
		{"GET", "/projects/shop/settings", "", 200, "", ""},
		{"PUT", "/projects/shop/settings", `{"retention_days":7}`, 200, "", ""},
		{"PUT", "/projects/shop/settings", `{}`, 200, "", ""},
		{"PUT", "/projects/shop/settings", `{"retention_days":0}`, 400, "invalid_field", "retention_days"},
		{"PUT", "/projects/shop/settings", `{"retention_days":70000}`, 400, "invalid_field", "retention_days"},
		{"PUT", "/projects/shop/settings", `{"retention_days":"7"}`, 400, "invalid_field", "retention_days"},
		{"PUT", "/projects/shop/settings", `{"retention_days":null}`, 400, "invalid_field", "retention_days"},
		{"PUT", "/projects/shop/settings", `{"retention_day":7}`, 400, "invalid_field", "retention_day"},
		{"PUT", "/projects/nobody/settings", `{"retention_days":7}`, 404, "not_found", ""},
		{"PUT", "/projects/shop/settings", `{"rate":1.5}`, 400, "invalid_field", "rate"},
		{"PUT", "/projects/shop/settings", `{"rate":-1}`, 400, "invalid_field", "rate"},
		{"PUT", "/projects/shop/settings", `{"monthly_bytes":1e30}`, 400, "invalid_field", "monthly_bytes"},
		{"PUT", "/projects/shop/settings", `{"daily_records":{"a":1}}`, 400, "invalid_field", "daily_records"},
		{"PUT", "/projects/shop/settings", `{"on_quota":"explode"}`, 400, "invalid_field", "on_quota"},
		{"PUT", "/projects/shop/settings", `{"stderr_as":"purple"}`, 400, "invalid_field", "stderr_as"},
		{"PUT", "/projects/shop/settings", `{"rate":0,"daily_records":null,"monthly_bytes":5,"on_quota":"refuse","stderr_as":"error"}`, 200, "", ""},
		{"GET", "/projects/shop/alerts", "", 200, "", ""},
		{"PUT", "/projects/shop/alerts", `{"min_severity":"error"}`, 400, "invalid_field", "webhook_url"},
		{"PUT", "/projects/shop/alerts", `{"webhook_url":"ftp://h/x"}`, 400, "invalid_field", "webhook_url"},
		{"PUT", "/projects/shop/alerts", `{"webhook_url":7}`, 400, "invalid_field", "webhook_url"},
		{"PUT", "/projects/shop/alerts", `{"webhook_url":"https://h.example/x","format":"fax"}`, 400, "invalid_field", "format"},
		{"PUT", "/projects/shop/alerts", `{"webhook_url":"https://h.example/x","min_severity":"purple"}`, 400, "invalid_field", "min_severity"},
		{"PUT", "/projects/shop/alerts", `{"url":"https://h.example/x"}`, 400, "invalid_field", "url"},
		{"PUT", "/projects/shop/alerts", `{"webhook_url":"https://h.example/x"}`, 200, "", ""},
		{"PUT", "/projects/shop/alerts", `{"webhook_url":""}`, 200, "", ""},
		{"PUT", "/projects/nobody/alerts", `{}`, 404, "not_found", ""},
		{"GET", "/projects/shop/usage", "", 200, "", ""},
		{"GET", "/projects/shop/usage?from=yesterday", "", 400, "invalid_field", "from"},
		{"GET", "/projects/shop/usage?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "", 400, "invalid_field", "to"},
		{"GET", "/projects/shop/usage?from=2020-01-01T00:00:00Z&to=2026-01-01T00:00:00Z", "", 400, "invalid_field", "from"},
		{"GET", "/projects/nobody/usage", "", 404, "not_found", ""},
		{"GET", "/projects/shop/logs", "", 200, "", ""},
		{"GET", "/projects/shop/events?limit=x", "", 400, "invalid_field", "limit"},
		{"GET", "/projects/nobody/events", "", 404, "not_found", ""},
		{"DELETE", "/projects/nobody", "", 404, "not_found", ""},
		{"DELETE", "/projects/shop", "", 204, "", ""},
		{"DELETE", "/projects/shop", "", 404, "not_found", ""},
		{"GET", "/projects/shop/tokens", "", 404, "not_found", ""},
		{"POST", "/projects", `{"name":"shop"}`, 201, "", ""},
	} {
		answer := b.do(t, s, tc.method, apiRoot+tc.path, tc.body)
		got := refusal{}
		if answer.Code >= 400 {
			got = decoded[refusal](t, answer)
		}
		if answer.Code != tc.status || got.Code != tc.code || got.Field != tc.field {
			t.Errorf("%s %s %.60s: answer %d: %s", tc.method, tc.path, tc.body, answer.Code, answer.Body)
		}
		if answer.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s: the answer may be cached", tc.method, tc.path)
		}
	}
}

func TestCompressedBodyIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	request := httptest.NewRequest(http.MethodPost, apiRoot+"/projects", strings.NewReader(`{"name":"x"}`))
	request.Header.Set("Authorization", "Bearer "+b.key)
	request.Header.Set("Content-Encoding", "gzip")
	answer := httptest.NewRecorder()
	b.server().ServeHTTP(answer, request)
	if got := decoded[refusal](t, answer); answer.Code != http.StatusUnsupportedMediaType || got.Code != "unsupported_encoding" {
		t.Errorf("answer %d: %s", answer.Code, answer.Body)
	}
}

func TestUnknownFieldIsNamedWithoutControlCharacters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	answer := b.do(t, b.server(), http.MethodPost, apiRoot+"/projects", `{"\u001b]0;x\u202e`+strings.Repeat("y", 100)+`":1}`)
	got := decoded[refusal](t, answer)
	if answer.Code != http.StatusBadRequest || strings.ContainsAny(got.Field+got.Detail, "\x1b\u202e") || len(got.Field) > 2*maxFieldName {
		t.Errorf("answer %d: %q", answer.Code, got)
	}
}

func TestOneOfManyParallelCreationsSucceeds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.server()
	const callers = 50
	statuses := make(chan int, callers)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() { statuses <- b.do(t, s, http.MethodPost, apiRoot+"/projects", `{"name":"one"}`).Code })
	}
	all.Wait()
	close(statuses)
	count := map[int]int{}
	for status := range statuses {
		count[status]++
	}
	if want := map[int]int{http.StatusCreated: 1, http.StatusConflict: callers - 1}; !maps.Equal(count, want) {
		t.Errorf("answers %v, want %v", count, want)
	}
}

func TestProjectsAreListedPageByPage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.server()
	if answer := b.do(t, s, http.MethodGet, apiRoot+"/projects", ""); answer.Body.String() != `{"projects":[],"next":""}`+"\n" {
		t.Errorf("none yet: %s", answer.Body)
	}
	for _, name := range []string{"e", "a", "d.x", "c", "b"} {
		b.Project(t, name)
	}
	var names []string
	for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
		page := decoded[projectPage](t, b.do(t, s, http.MethodGet, apiRoot+"/projects?limit=2&cursor="+cursor, ""))
		if len(page.Projects) > 2 || pages > 5 {
			t.Fatalf("page %d holds %d", pages, len(page.Projects))
		}
		for _, p := range page.Projects {
			names = append(names, p.Name)
		}
		cursor = page.Next
	}
	if fmt.Sprint(names) != "[a b c d.x e]" {
		t.Errorf("pages contain %v", names)
	}
}

func TestLongestPageStillHasACursor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.server()
	var group errgroup.Group
	group.SetLimit(32)
	for i := range maxLimit + 1 {
		group.Go(func() error {
			_, err := b.Projects.CreateProject(admintest.Context(t), fmt.Sprintf("p%04d", i))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	first := decoded[projectPage](t, b.do(t, s, http.MethodGet, fmt.Sprintf("%s/projects?limit=%d", apiRoot, maxLimit), ""))
	rest := decoded[projectPage](t, b.do(t, s, http.MethodGet, apiRoot+"/projects?cursor="+first.Next, ""))
	if len(first.Projects) != maxLimit || len(rest.Projects) != 1 || rest.Next != "" {
		t.Errorf("pages of %d and %d, next %q and %q", len(first.Projects), len(rest.Projects), first.Next, rest.Next)
	}
}

func TestLimitedKeyListsItsProjectsPageByPage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.server()
	for _, name := range []string{"c", "a", "b", "d"} {
		b.Project(t, name)
	}
	key := b.apiKey(t, people.RoleMember, "c", "a", "b")
	b.do(t, s, http.MethodDelete, apiRoot+"/projects/b", "")
	b.Project(t, "b") // another project with the name, which the key may not read
	for query, want := range map[string]string{"": "ac", "?limit=1": "a", "?limit=1&cursor=a": "c", "?cursor=c": ""} {
		got := ""
		for _, p := range decoded[projectPage](t, send(s, http.MethodGet, apiRoot+"/projects"+query, key, "")).Projects {
			got += p.Name
		}
		if got != want {
			t.Errorf("%q gives %s, want %s", query, got, want)
		}
	}
	if answer := send(s, http.MethodGet, apiRoot+"/projects/b", key, ""); answer.Code != http.StatusNotFound {
		t.Errorf("the new project: answer %d", answer.Code)
	}
}

func TestSettingsThatAreNotGivenKeepTheirValue(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.server()
	b.Project(t, "shop")
	path := apiRoot + "/projects/shop/settings"
	for _, step := range []struct{ body, want string }{
		{`{}`, `{"retention_days":30,"rate":null,"daily_records":null,"monthly_bytes":null,"on_quota":"drop","stderr_as":""}`},
		{`{"rate":7,"retention_days":12}`, `{"retention_days":12,"rate":7,"daily_records":null,"monthly_bytes":null,"on_quota":"drop","stderr_as":""}`},
		{`{"daily_records":0,"on_quota":"refuse"}`, `{"retention_days":12,"rate":7,"daily_records":0,"monthly_bytes":null,"on_quota":"refuse","stderr_as":""}`},
		{`{"rate":null,"stderr_as":"ERROR"}`, `{"retention_days":12,"rate":null,"daily_records":0,"monthly_bytes":null,"on_quota":"refuse","stderr_as":"error"}`},
	} {
		for method, body := range map[string]string{http.MethodPut: step.body, http.MethodGet: ""} {
			if method == http.MethodGet {
				b.do(t, s, http.MethodPut, path, step.body)
			}
			if got := strings.TrimSpace(b.do(t, s, method, path, body).Body.String()); got != step.want {
				t.Errorf("%s after %s: %s", method, step.body, got)
			}
		}
	}
}

func TestAlertsAreShownWithoutTheirAddress(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.server()
	b.Project(t, "shop")
	path := apiRoot + "/projects/shop/alerts"
	const address = "https://hooks.example.org:8443/services/T0/B0/canary123456"
	for _, step := range []struct{ body, want string }{
		{``, `{"webhook_url":"","format":"auto","min_severity":""}`},
		{`{"webhook_url":"` + address + `"}`, `{"webhook_url":"hooks.example.org:8443/…3456","format":"auto","min_severity":""}`},
		{`{"min_severity":"Error","format":"slack"}`, `{"webhook_url":"hooks.example.org:8443/…3456","format":"slack","min_severity":"error"}`},
		{`{}`, `{"webhook_url":"hooks.example.org:8443/…3456","format":"slack","min_severity":"error"}`},
	} {
		if step.body != "" {
			if got := strings.TrimSpace(b.do(t, s, http.MethodPut, path, step.body).Body.String()); got != step.want {
				t.Errorf("%s is answered %s", step.body, got)
			}
		}
		if got := strings.TrimSpace(b.do(t, s, http.MethodGet, path, "").Body.String()); got != step.want {
			t.Errorf("after %s: %s", step.body, got)
		}
	}
	if kept, err := b.Projects.Alerts(admintest.Context(t), "shop"); err != nil || kept.WebhookURL.Reveal() != address {
		t.Errorf("another address is stored: %v", err)
	}
	shown := decoded[alertsBody](t, b.do(t, s, http.MethodGet, path, ""))
	sentBack, err := json.Marshal(shown)
	if err != nil {
		t.Fatal(err)
	}
	if answer := b.do(t, s, http.MethodPut, path, string(sentBack)); answer.Code != http.StatusBadRequest {
		t.Errorf("what is shown is accepted as an address: %s", answer.Body)
	}
	b.do(t, s, http.MethodPut, path, `{"webhook_url":""}`)
	if kept, err := b.Projects.Alerts(admintest.Context(t), "shop"); err != nil || kept.WebhookURL.IsSet() {
		t.Errorf("an address is stored: %v", err)
	}
	if strings.Contains(b.Log.String(), "canary") {
		t.Errorf("the address is logged: %s", &b.Log)
	}
}

func TestAlertsCannotBeSetWithoutASecretKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Project(t, "shop")
	var err error
	if b.Deps.Projects, err = project.Open(admintest.Context(t), b.Queue, project.Config{}); err != nil {
		t.Fatal(err)
	}
	answer := b.do(t, b.server(), http.MethodPut, apiRoot+"/projects/shop/alerts", `{"webhook_url":"https://h.example/x"}`)
	if got := decoded[refusal](t, answer); answer.Code != http.StatusServiceUnavailable || got.Code != "secret_key_missing" {
		t.Errorf("answer %d: %s", answer.Code, answer.Body)
	}
}

func TestTokensAreListedPageByPageAndRevoked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.server()
	b.Project(t, "shop")
	b.Project(t, "other")
	path := apiRoot + "/projects/shop/tokens"
	created := map[string]newToken{}
	for i := range 5 {
		m := decoded[newToken](t, b.do(t, s, http.MethodPost, path, fmt.Sprintf(`{"name":"t%d"}`, i)))
		digest, err := token.Parse(m.Token)
		if err != nil || digest.ID().String() != m.ID || !strings.HasSuffix(m.Token, m.Last4) {
			t.Fatalf("token %v: %v", m, err)
		}
		created[m.ID] = m
	}
	var listed []string
	for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
		page := decoded[tokenPage](t, b.do(t, s, http.MethodGet, path+"?limit=2&cursor="+cursor, ""))
		for _, token := range page.Tokens {
			listed = append(listed, token.Name)
			if created[token.ID].Last4 != token.Last4 || created[token.ID].Name != token.Name {
				t.Errorf("listed %v, created %v", token, created[token.ID])
			}
			// The next page begins after a token, even if it is revoked meanwhile.
			if answer := b.do(t, s, http.MethodDelete, path+"/"+token.ID, ""); answer.Code != http.StatusNoContent {
				t.Errorf("delete: answer %d: %s", answer.Code, answer.Body)
			}
		}
		cursor = page.Next
	}
	if fmt.Sprint(listed) != "[t0 t1 t2 t3 t4]" {
		t.Errorf("pages contain %v", listed)
	}
	for id, m := range created {
		cache := token.NewCache(b.Tokens, nil, slog.New(slog.DiscardHandler))
		if _, err := cache.Authenticate(admintest.Context(t), m.Token); !errors.Is(err, token.ErrUnknown) {
			t.Errorf("token %s is accepted after it was revoked: %v", id, err)
		}
	}
}

func TestTokenOfAnotherProjectIsNotFound(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.server()
	b.Project(t, "mine")
	b.Project(t, "theirs")
	m := decoded[newToken](t, b.do(t, s, http.MethodPost, apiRoot+"/projects/theirs/tokens", `{"name":"x"}`))
	if answer := b.do(t, s, http.MethodDelete, apiRoot+"/projects/mine/tokens/"+m.ID, ""); answer.Code != http.StatusNotFound {
		t.Errorf("answer %d: %s", answer.Code, answer.Body)
	}
	if list := decoded[tokenPage](t, b.do(t, s, http.MethodGet, apiRoot+"/projects/theirs/tokens", "")); len(list.Tokens) != 1 {
		t.Errorf("their tokens are now %v", list)
	}
}

func TestEveryRouteIsUnavailableWhenTheQueueIsDown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.server()
	if err := b.NATS.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for _, r := range s.routes() {
		if r.access() == admin.Anyone {
			continue
		}
		all.Go(func() {
			answer := sendWithin(time.Second, s, r.method, r.address("shop"), b.key, "{}") // the queue will not answer
			checkDescribed(t, s, r.method, r.address("shop"), answer)
			if answer.Code != http.StatusServiceUnavailable || answer.Header().Get("Retry-After") == "" {
				t.Errorf("%s %s: answer %d: %s", r.method, r.path, answer.Code, answer.Body)
			}
		})
	}
	all.Wait()
}

func TestChangesAreRecordedWithoutSecrets(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.server()
	shop := apiRoot + "/projects/shop"
	b.do(t, s, http.MethodPost, apiRoot+"/projects", `{"name":"shop"}`)
	m := decoded[newToken](t, b.do(t, s, http.MethodPost, shop+"/tokens", `{"name":"label"}`))
	answers := ""
	for _, step := range [][3]string{
		{http.MethodPut, shop + "/settings", `{"retention_days":3}`},
		{http.MethodPut, shop + "/settings", `{"retention_days":0}`}, // refused: no change
		{http.MethodPut, shop + "/alerts", `{"webhook_url":"https://h.example/canary/1234"}`},
		{http.MethodGet, shop + "/tokens", ""},
		{http.MethodGet, shop, ""},
		{http.MethodGet, apiRoot + "/projects", ""},
		{http.MethodDelete, shop + "/tokens/" + m.ID, ""},
		{http.MethodDelete, shop, ""},
	} {
		answers += b.do(t, s, step[0], step[1], step[2]).Body.String()
	}
	var actions []string
	for line := range strings.Lines(b.Log.String()) {
		var change struct {
			Msg, Action, Project string
			KeyID                string `json:"key_id"`
		}
		if err := json.Unmarshal([]byte(line), &change); err != nil {
			t.Fatal(err)
		}
		if change.Msg != "change made" {
			continue
		}
		actions = append(actions, change.Action)
		if change.KeyID == "" || change.Project != "shop" {
			t.Errorf("change %s", line)
		}
	}
	want := []string{"project.created", "token.created", "settings.changed", "alerts.changed", "token.deleted", "project.deleted"}
	if !slices.Equal(actions, want) {
		t.Errorf("recorded %v, want %v", actions, want)
	}
	for _, secret := range []string{m.Token, b.key, "canary", strings.TrimPrefix(m.Token, "lgb_")[:20]} {
		if strings.Contains(answers, secret) || strings.Contains(b.Log.String(), secret) {
			t.Errorf("a secret is shown in %s\n%s", answers, &b.Log)
		}
	}
}
