package engines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/token"
	"github.com/logboom/logboom/pkg/webhook/webhooktest"
)

// installWithData starts a new installation and stores an example of every
// kind of data in it.
func installWithData(t *testing.T, chat *webhooktest.Chat) (*site, *installation) {
	t.Helper()
	engines, token := newSite(t), token.New().Reveal()
	engines.migrate(t)
	s := engines.open(t, chat, "LOGBOOM_BOOTSTRAP_PROJECT=shop", "LOGBOOM_BOOTSTRAP_TOKEN="+token, "LOGBOOM_BOOTSTRAP_API_KEY="+apiKey,
		"LOGBOOM_BOOTSTRAP_ADMIN_EMAIL="+email, "LOGBOOM_BOOTSTRAP_ADMIN_PASSWORD="+password)
	s.token = token
	s.fill(chat)
	return engines, s
}

// close stops the processes and waits until they have exited.
func (s *installation) close() {
	s.t.Helper()
	for _, p := range s.running {
		if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, p := range s.running {
		p.awaitExit()
	}
}

// fill stores an example of every kind of data.
func (s *installation) fill(chat *webhooktest.Chat) {
	s.t.Helper()
	s.api(http.MethodPut, "/projects/shop/alerts", `{"webhook_url":"`+chat.Address()+`","format":"mattermost","min_severity":"error"}`, http.StatusOK)
	s.api(http.MethodPut, "/projects/shop/settings", `{"daily_records":5000,"retention_days":90}`, http.StatusOK)
	s.api(http.MethodPost, "/projects", `{"name":"orders"}`, http.StatusCreated)
	s.signIn(email)
	s.submit("/projects/shop/logs/views", url.Values{"name": {"broken payments"}, "q": {"severity>=error"}})
	s.submit("/installation/users", url.Values{"email": {clerk}, "password": {password}, "role": {"member"}, "projects": {"orders"}})
	s.sendLogs("old", 12)
	s.send("/v1/events/shop", `[{"channel":"deploys","title":"out","notify":true},{"channel":"deploys","title":"quiet"}]`, http.StatusAccepted)
	s.send("/services/collector/event", `{"event":"good"}{"event":""}`, http.StatusOK)
	s.awaitStored(12*3+1, 2)
	s.awaitText("/dead-letters", `"ingest"`)
	awaitThat(s.t, "the event is in the chat", func() bool { return alertCount(chat) == 1 })
}

// clerk is a member of the project orders only.
const clerk = "clerk@example.com"

func (s *installation) signIn(user string) {
	s.t.Helper()
	s.submit("/sign-in", url.Values{"email": {user}, "password": {password}})
}

// page returns a page as the signed-in user sees it.
func (s *installation) page(path string) string {
	s.t.Helper()
	return s.do(s.request(http.MethodGet, s.admin+path, "", ""), http.StatusOK)
}

// sendLogs sends bodies of three logs each. Every body has its own idempotency
// key, so it becomes its own message, which can go to any of the streams.
func (s *installation) sendLogs(word string, bodies int) {
	s.t.Helper()
	for n := range bodies {
		body := fmt.Sprintf(`[{"data":"%[1]s %[2]d a","severity":"warn","metadata":{"n":%[2]d}},{"data":"%[1]s %[2]d b"},{"data":"%[1]s %[2]d c"}]`, word, n)
		s.sendAs(fmt.Sprint(word, n), "/v1/logs/shop", body, http.StatusAccepted)
	}
}

// records returns the project's records of a kind ("logs" or "events") as JSON
// from the API.
func (s *installation) records(kind string) (list []string) {
	s.t.Helper()
	var page map[string]json.RawMessage
	if err := json.Unmarshal([]byte(s.api(http.MethodGet, "/projects/shop/"+kind+"?limit=1000", "", http.StatusOK)), &page); err != nil {
		s.t.Fatal(err)
	}
	var records []json.RawMessage
	if err := json.Unmarshal(page[kind], &records); err != nil {
		s.t.Fatal(err)
	}
	for _, r := range records {
		list = append(list, string(r))
	}
	return list
}

// awaitStored waits until the API returns that many records and the usage
// counts them.
func (s *installation) awaitStored(logs, events int) {
	s.t.Helper()
	awaitThat(s.t, fmt.Sprintf("%d logs and %d events are stored", logs, events), func() bool {
		return len(s.records("logs")) >= logs && len(s.records("events")) >= events && s.used().Totals.Stored >= logs+events
	})
}

// usage holds the counts that do not change between two requests. Refused
// records are not among them: they are counted with a delay.
type usage struct {
	Totals struct {
		Stored       int
		Logs, Events struct{ Records, Bytes int }
	}
}

func (s *installation) used() (u usage) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(s.api(http.MethodGet, "/projects/shop/usage", "", http.StatusOK)), &u); err != nil {
		s.t.Fatal(err)
	}
	return u
}

// contents is what must be the same after a restore.
type contents struct {
	logs, events             []string
	used                     usage
	alerts, settings, tokens string
}

func (s *installation) contents() contents {
	s.t.Helper()
	get := func(path string) string { return s.api(http.MethodGet, path, "", http.StatusOK) }
	return contents{
		logs: s.records("logs"), events: s.records("events"), used: s.used(),
		alerts: get("/projects/shop/alerts"), settings: get("/projects/shop/settings"),
		tokens: regexp.MustCompile(`"last_used":[^,}]*`).ReplaceAllString(get("/projects/shop/tokens"), ""),
	}
}

// This is the restore procedure of docs/operations.md. After a backup is
// restored to empty engines, clients, users and scripts find what they had. New
// records are stored beside the old ones, exactly once.
func TestBackupRestoresEverything(t *testing.T) {
	t.Parallel()
	chat := newChat(t)
	old, s := installWithData(t, chat)
	token, want := s.token, s.contents()
	old.backUpTables(t)
	streams := backUpAll(t, old)
	s.sendLogs("lost", 4) // these are not in the backup
	s.close()
	stop(t, old.tables)

	restored := newSite(t)
	restored.restoreTables(t, old.folder)
	restoreAll(t, restored, streams)
	restored.migrate(t)
	s = restored.open(t, chat)
	s.token = token
	checkContents(t, s.contents(), want)
	s.checkPeople()

	s.sendLogs("new", 12)
	s.send("/v1/events/shop", `{"channel":"deploys","title":"out again","notify":true}`, http.StatusAccepted)
	s.awaitStored(len(want.logs)+12*3, len(want.events)+1)
	awaitThat(t, "the alert address can be decrypted, and only the new event is sent to it", func() bool { return alertCount(chat) == 2 })
	s.close()
	restored.checkRows(t, want, 12*3, 1)
}

// This is the procedure for a lost ClickHouse disk when the queue is intact.
// Records stored since the backup are stored again from the replay window,
// exactly once.
func TestRecordsSinceTheBackupAreStoredAgain(t *testing.T) {
	t.Parallel()
	chat := newChat(t)
	engines, s := installWithData(t, chat)
	before := s.contents()
	engines.backUpTables(t)
	s.sendLogs("since", 12)
	s.send("/v1/events/shop", `{"channel":"deploys","title":"since","notify":true}`, http.StatusAccepted)
	s.awaitStored(len(before.logs)+12*3, len(before.events)+1)
	awaitThat(t, "the event is in the chat", func() bool { return alertCount(chat) == 2 })
	token, want := s.token, s.contents()
	s.close()
	stop(t, engines.tables)

	lost := engines.folder
	engines.newTables(t)
	engines.restoreTables(t, lost)
	if output := engines.migrate(t, "--store-again"); !strings.Contains(output, "are stored again") {
		t.Errorf("migrate --store-again does not report what is stored again: %s", output)
	}
	s = engines.open(t, chat)
	s.token = token
	s.awaitStored(len(want.logs), len(want.events))
	checkContents(t, s.contents(), want)
	s.sendLogs("new", 12)
	s.awaitStored(len(want.logs)+12*3, len(want.events))
	s.close()
	engines.checkRows(t, want, 12*3, 0)
	if got := alertCount(chat); got != 2 {
		t.Errorf("the chat received %d alerts, want the two from before the restore", got)
	}
}

func checkContents(t *testing.T, got, want contents) {
	t.Helper()
	if !slices.Equal(got.logs, want.logs) || !slices.Equal(got.events, want.events) {
		t.Errorf("the restored records differ: %d logs and %d events, want %d and %d: %.1000s", len(got.logs), len(got.events), len(want.logs), len(want.events), got.logs)
	}
	for name, pair := range map[string][2]string{
		"alerts": {got.alerts, want.alerts}, "settings": {got.settings, want.settings}, "tokens": {got.tokens, want.tokens},
		"usage": {fmt.Sprint(got.used), fmt.Sprint(want.used)},
	} {
		if pair[0] != pair[1] || pair[0] == "" {
			t.Errorf("%s are\n%s\nwant\n%s", name, pair[0], pair[1])
		}
	}
}

// checkPeople signs both users in and checks that they see what they saw before
// and nothing more.
func (s *installation) checkPeople() {
	s.t.Helper()
	s.signIn(email)
	for path, text := range map[string]string{
		"/projects/shop/logs": "broken payments", "/installation/users": clerk, "/installation/audit": "orders",
	} {
		if !strings.Contains(s.page(path), text) {
			s.t.Errorf("%s does not show %q", path, text)
		}
	}
	s.awaitText("/dead-letters", `"ingest"`)
	s.submit("/sign-out", nil)
	s.signIn(clerk)
	if list := s.page("/projects"); !strings.Contains(list, "orders") || strings.Contains(list, "shop") {
		s.t.Errorf("the clerk sees other projects than before: %.2000s", list)
	}
}

// checkRows checks that the tables hold the records of before and that many new
// logs and events, and that no two rows have the same RowID.
func (s *site) checkRows(t *testing.T, before contents, logs, events int) {
	t.Helper()
	for table, want := range map[string]int{"logs": len(before.logs) + logs, "events": len(before.events) + events} {
		got := s.sql(t, "SELECT count(), uniqExact(_shard, _seq), uniqExact(_shard, _seq, _idx) FROM logboom."+table)
		if fields := strings.Fields(got); fields[0] != fmt.Sprint(want) || fields[2] != fmt.Sprint(want) {
			t.Errorf("%s has rows, messages and RowIDs %s, want %d rows and RowIDs", table, got, want)
		}
	}
}

// publish publishes one log as ingest does.
func publish(t *testing.T, topology *stream.Topology) stream.Ack {
	t.Helper()
	publisher, err := stream.NewPublisher(topology, stream.PublisherConfig{AckTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1) // one: Run returns once
	go func() { ended <- publisher.Run(running) }()
	defer func() {
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ack, err := publisher.Publish(ctx, stream.Message{Kind: record.KindLog, Project: "shop", Parts: [][]byte{[]byte("a record")}, Records: 1})
	if err != nil {
		t.Fatal(err)
	}
	return ack
}
