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

// begin is a new installation with something of everything in it.
func begin(t *testing.T, chat *webhooktest.Chat) (*site, *installation) {
	t.Helper()
	e, token := newSite(t), token.New().Reveal()
	e.migrate(t)
	s := e.open(t, chat, "LOGBOOM_BOOTSTRAP_PROJECT=shop", "LOGBOOM_BOOTSTRAP_TOKEN="+token, "LOGBOOM_BOOTSTRAP_API_KEY="+apiKey,
		"LOGBOOM_BOOTSTRAP_ADMIN_EMAIL="+email, "LOGBOOM_BOOTSTRAP_ADMIN_PASSWORD="+password)
	s.token = token
	s.fill(chat)
	return e, s
}

// close stops the processes.
func (s *installation) close() {
	s.t.Helper()
	for _, p := range s.running {
		if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, p := range s.running {
		p.end()
	}
}

// fill makes of everything something.
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
	s.stored(12*3+1, 2)
	s.shows("/dead-letters", `"ingest"`)
	awaitThat(s.t, "the event is in the chat", func() bool { return told(chat) == 1 })
}

const clerk = "clerk@example.com"

func (s *installation) signIn(as string) {
	s.t.Helper()
	s.submit("/sign-in", url.Values{"email": {as}, "password": {password}})
}

// page is what the person who is signed in sees.
func (s *installation) page(path string) string {
	s.t.Helper()
	return s.ask(s.request(http.MethodGet, s.admin+path, "", ""), http.StatusOK)
}

// sendLogs sends bodies of three logs. Each has a key, and so is a message of
// its own that goes to any of the streams.
func (s *installation) sendLogs(word string, bodies int) {
	s.t.Helper()
	for n := range bodies {
		body := fmt.Sprintf(`[{"data":"%[1]s %[2]d a","severity":"warn","metadata":{"n":%[2]d}},{"data":"%[1]s %[2]d b"},{"data":"%[1]s %[2]d c"}]`, word, n)
		s.sendAs(fmt.Sprint(word, n), "/v1/logs/shop", body, http.StatusAccepted)
	}
}

// records are all that is read back of shop, as the API tells it.
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

// stored waits until so many are read back, and counted.
func (s *installation) stored(logs, events int) {
	s.t.Helper()
	awaitThat(s.t, fmt.Sprintf("%d logs and %d events are stored", logs, events), func() bool {
		return len(s.records("logs")) >= logs && len(s.records("events")) >= events && s.used().Totals.Stored >= logs+events
	})
}

// usage is what is the same whenever it is asked for: what was refused is
// counted a while later.
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

// memory is what must be the same after a restore.
type memory struct {
	logs, events             []string
	used                     usage
	alerts, settings, tokens string
}

func (s *installation) remember() memory {
	s.t.Helper()
	get := func(path string) string { return s.api(http.MethodGet, path, "", http.StatusOK) }
	return memory{
		logs: s.records("logs"), events: s.records("events"), used: s.used(),
		alerts: get("/projects/shop/alerts"), settings: get("/projects/shop/settings"),
		tokens: regexp.MustCompile(`"last_used":[^,}]*`).ReplaceAllString(get("/projects/shop/tokens"), ""),
	}
}

// The drill of docs/operations.md: what a backup has is there again over empty
// engines, for senders, people and scripts alike, and what comes then is stored
// beside it, once.
func TestABackupBringsEverythingBack(t *testing.T) {
	t.Parallel()
	chat := newChat(t)
	lost, s := begin(t, chat)
	token, want := s.token, s.remember()
	lost.backUpTables(t)
	streams := backUpAll(t, lost)
	s.sendLogs("lost", 4) // no backup has these
	s.close()
	end(t, lost.tables)

	found := newSite(t)
	found.restoreTables(t, lost.folder)
	restoreAll(t, found, streams)
	found.migrate(t)
	s = found.open(t, chat)
	s.token = token
	checkMemory(t, s.remember(), want)
	s.checkPeople()

	s.sendLogs("new", 12)
	s.send("/v1/events/shop", `{"channel":"deploys","title":"out again","notify":true}`, http.StatusAccepted)
	s.stored(len(want.logs)+12*3, len(want.events)+1)
	awaitThat(t, "the address opens, and only the new event is sent to it", func() bool { return told(chat) == 2 })
	s.close()
	found.checkPlaces(t, want, 12*3, 1)
}

// The drill for a disk of ClickHouse that is lost while the queue is not: what
// was stored since the backup is stored again from the replay window, once.
func TestWhatWasStoredSinceTheBackupIsStoredAgain(t *testing.T) {
	t.Parallel()
	chat := newChat(t)
	e, s := begin(t, chat)
	before := s.remember()
	e.backUpTables(t)
	s.sendLogs("since", 12)
	s.send("/v1/events/shop", `{"channel":"deploys","title":"since","notify":true}`, http.StatusAccepted)
	s.stored(len(before.logs)+12*3, len(before.events)+1)
	awaitThat(t, "the event is in the chat", func() bool { return told(chat) == 2 })
	token, want := s.token, s.remember()
	s.close()
	end(t, e.tables)

	lost := e.folder
	e.newTables(t)
	e.restoreTables(t, lost)
	if said := e.migrate(t, "--store-again"); !strings.Contains(said, "are stored again") {
		t.Errorf("it does not say what is stored again: %s", said)
	}
	s = e.open(t, chat)
	s.token = token
	s.stored(len(want.logs), len(want.events))
	checkMemory(t, s.remember(), want)
	s.sendLogs("new", 12)
	s.stored(len(want.logs)+12*3, len(want.events))
	s.close()
	e.checkPlaces(t, want, 12*3, 0)
	if got := told(chat); got != 2 {
		t.Errorf("the chat was told of %d alerts, want the two of before", got)
	}
}

func checkMemory(t *testing.T, got, want memory) {
	t.Helper()
	if !slices.Equal(got.logs, want.logs) || !slices.Equal(got.events, want.events) {
		t.Errorf("%d logs and %d events came back of %d and %d, or others: %.1000s", len(got.logs), len(got.events), len(want.logs), len(want.events), got.logs)
	}
	for what, pair := range map[string][2]string{
		"alerts": {got.alerts, want.alerts}, "settings": {got.settings, want.settings}, "tokens": {got.tokens, want.tokens},
		"usage": {fmt.Sprint(got.used), fmt.Sprint(want.used)},
	} {
		if pair[0] != pair[1] || pair[0] == "" {
			t.Errorf("%s are\n%s\nwant\n%s", what, pair[0], pair[1])
		}
	}
}

// checkPeople signs people in, who find what they had and nothing more.
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
	s.shows("/dead-letters", `"ingest"`)
	s.submit("/sign-out", nil)
	s.signIn(clerk)
	if list := s.page("/projects"); !strings.Contains(list, "orders") || strings.Contains(list, "shop") {
		s.t.Errorf("the clerk sees other projects than before: %.2000s", list)
	}
}

// checkPlaces looks at the rows themselves: those of before, so many new ones,
// and no two in one place of the queue.
func (s *site) checkPlaces(t *testing.T, before memory, logs, events int) {
	t.Helper()
	for table, want := range map[string]int{"logs": len(before.logs) + logs, "events": len(before.events) + events} {
		got := s.sql(t, "SELECT count(), uniqExact(_shard, _seq), uniqExact(_shard, _seq, _idx) FROM logboom."+table)
		if fields := strings.Fields(got); fields[0] != fmt.Sprint(want) || fields[2] != fmt.Sprint(want) {
			t.Errorf("%s has rows, messages and places %s, want %d rows and places", table, got, want)
		}
	}
}

// publish puts one log on the queue as ingest does.
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
