package engines

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
	"github.com/logboom/logboom/pkg/lease"
	"github.com/logboom/logboom/pkg/redis/redistest"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/stream/streamtest"
	"github.com/logboom/logboom/pkg/token"
	"github.com/logboom/logboom/pkg/webhook"
	"github.com/logboom/logboom/pkg/webhook/webhooktest"
)

const (
	// patience limits every wait. It says nothing about how long a step takes.
	patience = 2 * time.Minute

	apiKey   = "an-api-key-of-32-characters-or-more"
	email    = "admin@example.com"
	password = "correct horse battery"
)

// built builds the processes once, in bin/engines, which git ignores.
var built = sync.OnceValues(func() (string, error) {
	folder, err := filepath.Abs(filepath.Join("..", "..", "bin", "engines"))
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 9*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "go", "build", "-o", folder+"/")
	for _, user := range users {
		command.Args = append(command.Args, "github.com/logboom/logboom/cmd/"+user)
	}
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return folder, nil
})

// process is a running Logboom process, connected as its own NATS user.
type process struct {
	t       *testing.T
	name    string
	command *exec.Cmd
	exited  chan struct{} // closed when the process has exited

	mu     sync.Mutex
	output bytes.Buffer
}

// Write keeps what the process prints.
func (p *process) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.Write(text)
}

func (p *process) printed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

func spawn(t *testing.T, name string, env []string, args ...string) *process {
	t.Helper()
	folder, err := built()
	if err != nil {
		t.Fatalf("build the processes: %v", err)
	}
	p := &process{t: t, name: name, command: exec.Command(filepath.Join(folder, name), args...), exited: make(chan struct{})}
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "LOGBOOM_") {
			p.command.Env = append(p.command.Env, pair)
		}
	}
	p.command.Env = append(p.command.Env, env...)
	p.command.Stdout, p.command.Stderr = p, p
	if err := p.command.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		_ = p.command.Wait() // awaitExit checks the exit code
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = p.command.Process.Kill() // usually it has exited already
		<-p.exited
		if text := p.printed(); t.Failed() {
			t.Logf("last lines of %s:\n%s", p.name, text[max(0, len(text)-8000):])
		}
	})
	return p
}

// attribute waits until the process logs message, and returns one attribute of
// that line.
func (p *process) attribute(message, key string) (value string) {
	p.t.Helper()
	awaitThat(p.t, p.name+" logs "+message, func() bool {
		for line := range strings.SplitSeq(p.printed(), "\n") {
			var fields map[string]any
			if json.Unmarshal([]byte(line), &fields) == nil && fields["msg"] == message {
				value, _ = fields[key].(string)
				return true
			}
		}
		select {
		case <-p.exited:
			p.t.Fatalf("%s exited:\n%s", p.name, p.printed())
		default:
		}
		return false
	})
	return value
}

// awaitExit waits until the process has exited, with code 0.
func (p *process) awaitExit() {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		p.t.Fatalf("%s did not exit within %s:\n%s", p.name, patience, p.printed())
	}
	if code := p.command.ProcessState.ExitCode(); code != 0 {
		p.t.Fatalf("%s exited with code %d:\n%s", p.name, code, p.printed())
	}
}

// awaitThat waits until holds returns true, and fails the test if that takes
// longer than patience. The condition is for the failure's message.
func awaitThat(t *testing.T, condition string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("not true after %s: %s", patience, condition)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// installation is a running Logboom whose queue uses nats.conf.
type installation struct {
	t              *testing.T
	queue          string
	ingest, admin  string // their base URLs
	token, project string
	created        []string            // the streams and buckets that migrate created
	observer       jetstream.JetStream // the test's own connection
	browser        *http.Client
	running        []*process
}

// certificateFile writes the chat's certificate to a file, which the processes
// must trust to reach the chat.
func certificateFile(t *testing.T, chat *webhooktest.Chat) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "chat.pem")
	if err := os.WriteFile(file, chat.Certificate(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// newBrowser returns a client that keeps cookies.
func newBrowser(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, Timeout: patience}
	t.Cleanup(browser.CloseIdleConnections)
	return browser
}

// install runs migrate and starts one process of each kind.
func install(t *testing.T, queue string, chat *webhooktest.Chat) *installation {
	t.Helper()
	s := &installation{t: t, queue: queue, token: token.New().Reveal(), project: "shop", browser: newBrowser(t)}
	engines := []string{
		"LOGBOOM_REDIS_URL=" + redistest.Start(t).URL(), "LOGBOOM_CLICKHOUSE_URL=" + enginetest.URL(t), "LOGBOOM_STREAM_BYTES=64MiB",
		"LOGBOOM_SECRET_KEY=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "LOGBOOM_WEBHOOK_ALLOW=" + chat.HostPort(), "SSL_CERT_FILE=" + certificateFile(t, chat),
	}
	spawn(t, "admin", append(engines, s.natsURL("admin")), "migrate").awaitExit()
	s.created = s.streams()
	engines = append(engines, "LOGBOOM_OPS_ADDR=127.0.0.1:0", "LOGBOOM_LOG_LEVEL=debug", "LOGBOOM_LOG_FORMAT=json",
		"LOGBOOM_INGEST_ADDR=127.0.0.1:0", "LOGBOOM_ADMIN_ADDR=127.0.0.1:0",
		"LOGBOOM_BOOTSTRAP_PROJECT="+s.project, "LOGBOOM_BOOTSTRAP_TOKEN="+s.token, "LOGBOOM_BOOTSTRAP_API_KEY="+apiKey,
		"LOGBOOM_BOOTSTRAP_ADMIN_EMAIL="+email, "LOGBOOM_BOOTSTRAP_ADMIN_PASSWORD="+password)
	s.start(engines)
	return s
}

// start runs one process of each kind and waits until all are ready.
func (s *installation) start(env []string) {
	s.t.Helper()
	for _, user := range users {
		s.running = append(s.running, spawn(s.t, user, append(slices.Clone(env), s.natsURL(user))))
	}
	for _, p := range s.running {
		p.attribute("process ready", "")
	}
	s.admin = "http://" + s.running[0].attribute("admin port open", "addr")
	s.ingest = "http://" + s.running[1].attribute("ingest port open", "addr")
}

// natsURL returns the setting with which a process connects to the queue as a
// user.
func (s *installation) natsURL(user string) string {
	return fmt.Sprintf("LOGBOOM_NATS_URL=nats://%s:%s@%s", user, secret, s.queue)
}

// do sends a request, checks the status of the response and returns its body.
// It retries on 503, as clients do: on a busy machine a process may not be
// ready yet.
func (s *installation) do(request *http.Request, status int) (text string) {
	s.t.Helper()
	awaitThat(s.t, "the response for "+request.URL.Path+" is not 503", func() bool {
		answer, err := s.browser.Do(s.clone(request))
		if err != nil {
			s.t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		body, err := io.ReadAll(answer.Body)
		if text = string(body); err == nil && answer.StatusCode == http.StatusServiceUnavailable && status != answer.StatusCode {
			return false
		}
		if err != nil || answer.StatusCode != status {
			s.t.Fatalf("%s %s: status %d, want %d: %.500s %v", request.Method, request.URL, answer.StatusCode, status, text, err)
		}
		return true
	})
	return text
}

// clone returns a copy of the request with an unread body.
func (s *installation) clone(request *http.Request) *http.Request {
	s.t.Helper()
	body, err := request.GetBody()
	if err != nil {
		s.t.Fatal(err)
	}
	request = request.Clone(request.Context())
	request.Body = body
	return request
}

func (s *installation) request(method, address, bearer, body string) *http.Request {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if bearer != "" {
		request.Header.Set("Authorization", "Bearer "+bearer)
	}
	return request
}

// send sends a body to ingest with a new idempotency key, so that a retry does
// not store it twice.
func (s *installation) send(path, body string, status int) {
	s.t.Helper()
	s.sendAs(nuid.Next(), path, body, status)
}

func (s *installation) sendAs(key, path, body string, status int) {
	s.t.Helper()
	request := s.request(http.MethodPost, s.ingest+path, s.token, body)
	request.Header.Set("Idempotency-Key", key)
	s.do(request, status)
}

func (s *installation) api(method, path, body string, status int) string {
	s.t.Helper()
	return s.do(s.request(method, s.admin+"/api/v1"+path, apiKey, body), status)
}

// submit sends a form of the pages and follows the redirect to a page.
func (s *installation) submit(path string, form url.Values) {
	s.t.Helper()
	request := s.request(http.MethodPost, s.admin+path, "", form.Encode())
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	s.do(request, http.StatusOK)
}

// awaitText waits until a response of the API contains a text.
func (s *installation) awaitText(path, text string) {
	s.t.Helper()
	awaitThat(s.t, path+" contains "+text, func() bool { return strings.Contains(s.api(http.MethodGet, path, "", http.StatusOK), text) })
}

// The users of nats.conf have every right that the processes need: the
// processes start, work and stop, and the queue refuses nothing.
func TestUsersHaveEveryRightThatTheirProcessesNeed(t *testing.T) {
	t.Parallel()
	log := &refusals{}
	defer log.check(t)
	chat := newChat(t)
	s := install(t, queueWithLog(t, log), chat)
	s.api(http.MethodPut, "/projects/shop/alerts", `{"webhook_url":"`+chat.Address()+`","format":"mattermost","min_severity":"error"}`, http.StatusOK)

	s.awaitNotifierWatches()
	s.send("/v1/logs/shop", `{"data":"payment failed","severity":"error"}`, http.StatusAccepted)
	s.send("/v1/events/shop", `{"channel":"deploys","title":"out","notify":true}`, http.StatusAccepted)
	s.send("/services/collector/event", `{"event":"good"}{"event":""}`, http.StatusOK)
	s.awaitText("/projects/shop/logs", "payment failed")
	s.awaitText("/projects/shop/events", "deploys")
	s.awaitText("/dead-letters", `"ingest"`)
	awaitThat(t, "the event and the log are in the chat", func() bool { return alertCount(chat) >= 2 })
	s.awaitText("/projects/shop/deliveries", "delivered")

	s.api(http.MethodPost, "/projects", `{"name":"orders"}`, http.StatusCreated)
	s.api(http.MethodPost, "/projects/orders/tokens", `{"name":"web"}`, http.StatusCreated)
	s.api(http.MethodDelete, "/projects/orders", "", http.StatusNoContent)
	s.openPages()
	awaitThat(t, "every process is listed as running", func() bool { return s.present() == "admin ingest notifier writer" })
	if now := s.streams(); !slices.Equal(now, s.created) {
		t.Errorf("streams and buckets are %v after the processes ran, want only what migrate created: %v", now, s.created)
	}
	for _, p := range s.running {
		if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range s.running {
		p.awaitExit()
		if text := p.printed(); strings.Contains(strings.ToLower(text), "violation") {
			t.Errorf("the queue refused a request of %s:\n%s", p.name, text)
		}
	}
}

// awaitNotifierWatches waits until the notifier watches every stream of logs.
// Its bucket holds the position from which it watches.
func (s *installation) awaitNotifierWatches() {
	s.t.Helper()
	bucket, err := s.jetStream().KeyValue(s.t.Context(), "NOTIFIER")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, name := range s.streams() {
		if !strings.HasPrefix(name, "LOGS_") {
			continue
		}
		awaitThat(s.t, "the notifier watches "+name, func() bool {
			_, err := bucket.Get(s.t.Context(), "logs."+name)
			return err == nil
		})
	}
}

// newChat starts a chat server that logs what it received if the test fails.
func newChat(t *testing.T) *webhooktest.Chat {
	t.Helper()
	chat := webhooktest.Start(t, webhook.Mattermost, "")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the chat accepted %+v and refused %v", chat.Messages(), chat.Refused())
		}
	})
	return chat
}

// alertCount returns the number of alerts that the chat received. A message
// that is marked as a possible repeat counts only if its first copy did not
// arrive.
func alertCount(chat *webhooktest.Chat) (alerts int) {
	received := map[string]bool{}
	for _, message := range chat.Messages() {
		if !message.Repeat || !received[message.ID] {
			alerts += message.Count
		}
		received[message.ID] = true
	}
	return alerts
}

// openPages signs in and opens the pages.
func (s *installation) openPages() {
	s.t.Helper()
	s.submit("/sign-in", url.Values{"email": {email}, "password": {password}})
	s.submit("/projects/shop/logs/views", url.Values{"name": {"errors"}, "q": {"severity>=error"}})
	for _, path := range []string{
		"/projects", "/projects/shop/logs", "/projects/shop/events", "/projects/shop/settings", "/projects/shop/settings/tokens",
		"/projects/shop/settings/alerts", "/projects/shop/settings/quotas", "/operations", "/operations/dead-letters/1",
		"/installation/users", "/installation/keys", "/installation/audit", "/account",
	} {
		s.do(s.request(http.MethodGet, s.admin+path, "", ""), http.StatusOK)
	}
	s.submit("/sign-out", nil)
}

// present returns the names of the processes that are listed as running.
func (s *installation) present() string {
	s.t.Helper()
	var names []string
	members, err := lease.Processes(s.t.Context(), s.jetStream())
	if err != nil {
		s.t.Logf("processes not listed this time: %v", err)
	}
	for _, m := range members {
		names = append(names, m.Name)
	}
	return strings.Join(names, " ")
}

// streams returns the names of the queue's streams and buckets, sorted.
func (s *installation) streams() []string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	list := s.jetStream().StreamNames(ctx)
	var names []string
	for name := range list.Name() {
		names = append(names, name)
	}
	slices.Sort(names)
	if err := list.Err(); err != nil {
		s.t.Fatal(err)
	}
	return names
}

// jetStream returns the test's own connection to the queue, as the user admin.
func (s *installation) jetStream() jetstream.JetStream {
	s.t.Helper()
	if s.observer == nil {
		nc, js, err := stream.Connect(s.t.Context(), "nats://admin:"+secret+"@"+s.queue, streamtest.Calm("admin"))
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(nc.Close)
		s.observer = js
	}
	return s.observer
}
