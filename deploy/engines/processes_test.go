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
	// patience bounds every wait; it is no claim about how long anything takes.
	patience = 2 * time.Minute

	apiKey   = "an-api-key-of-32-characters-or-more"
	email    = "admin@example.com"
	password = "correct horse battery"
)

// built builds the processes where git does not look, once.
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

// process is one of ours, running under its own user of the queue.
type process struct {
	t       *testing.T
	name    string
	command *exec.Cmd
	ended   chan struct{} // closed when it has

	mu     sync.Mutex
	output bytes.Buffer
}

// Write takes what it prints.
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
	p := &process{t: t, name: name, command: exec.Command(filepath.Join(folder, name), args...), ended: make(chan struct{})}
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
		_ = p.command.Wait() // its exit code is asked for where it matters
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.command.Process.Kill() // as a rule it has ended
		<-p.ended
		if text := p.printed(); t.Failed() {
			t.Logf("%s, its last lines:\n%s", p.name, text[max(0, len(text)-8000):])
		}
	})
	return p
}

// attribute waits for a line of the log and is one of its attributes.
func (p *process) attribute(message, key string) (value string) {
	p.t.Helper()
	awaitThat(p.t, p.name+" says "+message, func() bool {
		for line := range strings.SplitSeq(p.printed(), "\n") {
			var said map[string]any
			if json.Unmarshal([]byte(line), &said) == nil && said["msg"] == message {
				value, _ = said[key].(string)
				return true
			}
		}
		select {
		case <-p.ended:
			p.t.Fatalf("%s ended:\n%s", p.name, p.printed())
		default:
		}
		return false
	})
	return value
}

// end waits until the process has ended, and well.
func (p *process) end() {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatalf("%s does not end:\n%s", p.name, p.printed())
	}
	if code := p.command.ProcessState.ExitCode(); code != 0 {
		p.t.Fatalf("%s ended with code %d:\n%s", p.name, code, p.printed())
	}
}

func awaitThat(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("not so: %s", what)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// installation is Logboom over a queue with nats.conf.
type installation struct {
	t              *testing.T
	queue          string
	ingest, admin  string // where they are reached
	token, project string
	made           []string            // the streams and buckets of migrate
	eyes           jetstream.JetStream // the test's own
	browser        *http.Client
	running        []*process
}

// certificateOf is the file of what the processes must trust to reach the chat.
func certificateOf(t *testing.T, chat *webhooktest.Chat) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "chat.pem")
	if err := os.WriteFile(file, chat.Certificate(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// newBrowser keeps cookies, as a person's does.
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

// install makes what migrate makes and starts one of each process.
func install(t *testing.T, queue string, chat *webhooktest.Chat) *installation {
	t.Helper()
	s := &installation{t: t, queue: queue, token: token.New().Reveal(), project: "shop", browser: newBrowser(t)}
	engines := []string{
		"LOGBOOM_REDIS_URL=" + redistest.Start(t).URL(), "LOGBOOM_CLICKHOUSE_URL=" + enginetest.URL(t), "LOGBOOM_STREAM_BYTES=64MiB",
		"LOGBOOM_SECRET_KEY=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "LOGBOOM_WEBHOOK_ALLOW=" + chat.HostPort(), "SSL_CERT_FILE=" + certificateOf(t, chat),
	}
	spawn(t, "admin", append(engines, s.as("admin")), "migrate").end()
	s.made = s.streams()
	engines = append(engines, "LOGBOOM_OPS_ADDR=127.0.0.1:0", "LOGBOOM_LOG_LEVEL=debug", "LOGBOOM_LOG_FORMAT=json",
		"LOGBOOM_INGEST_ADDR=127.0.0.1:0", "LOGBOOM_ADMIN_ADDR=127.0.0.1:0",
		"LOGBOOM_BOOTSTRAP_PROJECT="+s.project, "LOGBOOM_BOOTSTRAP_TOKEN="+s.token, "LOGBOOM_BOOTSTRAP_API_KEY="+apiKey,
		"LOGBOOM_BOOTSTRAP_ADMIN_EMAIL="+email, "LOGBOOM_BOOTSTRAP_ADMIN_PASSWORD="+password)
	s.start(engines)
	return s
}

// start runs one of each process and waits until they are ready.
func (s *installation) start(env []string) {
	s.t.Helper()
	for _, user := range users {
		s.running = append(s.running, spawn(s.t, user, append(slices.Clone(env), s.as(user))))
	}
	for _, p := range s.running {
		p.attribute("process ready", "")
	}
	s.admin = "http://" + s.running[0].attribute("admin port open", "addr")
	s.ingest = "http://" + s.running[1].attribute("ingest port open", "addr")
}

// as is the setting of who connects to the queue.
func (s *installation) as(user string) string {
	return fmt.Sprintf("LOGBOOM_NATS_URL=nats://%s:%s@%s", user, secret, s.queue)
}

// ask sends a request and checks how it is answered. What is not ready for it
// on a busy machine answers 503, and is asked again, as senders do.
func (s *installation) ask(request *http.Request, status int) (text string) {
	s.t.Helper()
	awaitThat(s.t, request.URL.Path+" is answered by more than 503", func() bool {
		answer, err := s.browser.Do(s.again(request))
		if err != nil {
			s.t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		body, err := io.ReadAll(answer.Body)
		if text = string(body); err == nil && answer.StatusCode == http.StatusServiceUnavailable && status != answer.StatusCode {
			return false
		}
		if err != nil || answer.StatusCode != status {
			s.t.Fatalf("%s %s: answer %d, not %d: %.500s %v", request.Method, request.URL, answer.StatusCode, status, text, err)
		}
		return true
	})
	return text
}

// again is the request with its body, to be sent once more.
func (s *installation) again(request *http.Request) *http.Request {
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

// send has ingest take a body, under a key of its own: once, though it may be
// sent again.
func (s *installation) send(path, body string, status int) {
	s.t.Helper()
	s.sendAs(nuid.Next(), path, body, status)
}

func (s *installation) sendAs(key, path, body string, status int) {
	s.t.Helper()
	request := s.request(http.MethodPost, s.ingest+path, s.token, body)
	request.Header.Set("Idempotency-Key", key)
	s.ask(request, status)
}

func (s *installation) api(method, path, body string, status int) string {
	s.t.Helper()
	return s.ask(s.request(method, s.admin+"/api/v1"+path, apiKey, body), status)
}

// submit sends a form of the pages, which leads to a page.
func (s *installation) submit(path string, form url.Values) {
	s.t.Helper()
	request := s.request(http.MethodPost, s.admin+path, "", form.Encode())
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	s.ask(request, http.StatusOK)
}

// shows waits until an answer of the API holds a text.
func (s *installation) shows(path, text string) {
	s.t.Helper()
	awaitThat(s.t, path+" shows "+text, func() bool { return strings.Contains(s.api(http.MethodGet, path, "", http.StatusOK), text) })
}

// The users of nats.conf have the rights that the processes use today: these do
// their work, from their start to their end, and the queue refuses nothing.
func TestProcessesAskForNothingThatTheirUsersMayNot(t *testing.T) {
	t.Parallel()
	log := &refusals{}
	defer log.check(t)
	chat := newChat(t)
	s := install(t, watched(t, log), chat)
	s.api(http.MethodPut, "/projects/shop/alerts", `{"webhook_url":"`+chat.Address()+`","format":"mattermost","min_severity":"error"}`, http.StatusOK)

	s.awaitWatch()
	s.send("/v1/logs/shop", `{"data":"payment failed","severity":"error"}`, http.StatusAccepted)
	s.send("/v1/events/shop", `{"channel":"deploys","title":"out","notify":true}`, http.StatusAccepted)
	s.send("/services/collector/event", `{"event":"good"}{"event":""}`, http.StatusOK)
	s.shows("/projects/shop/logs", "payment failed")
	s.shows("/projects/shop/events", "deploys")
	s.shows("/dead-letters", `"ingest"`)
	awaitThat(t, "the event and the log are in the chat", func() bool { return told(chat) >= 2 })
	s.shows("/projects/shop/deliveries", "delivered")

	s.api(http.MethodPost, "/projects", `{"name":"orders"}`, http.StatusCreated)
	s.api(http.MethodPost, "/projects/orders/tokens", `{"name":"web"}`, http.StatusCreated)
	s.api(http.MethodDelete, "/projects/orders", "", http.StatusNoContent)
	s.lookAtPages()
	awaitThat(t, "everybody says to be there", func() bool { return s.present() == "admin ingest notifier writer" })
	if now := s.streams(); !slices.Equal(now, s.made) {
		t.Errorf("migrate made %v, the processes %v", s.made, now)
	}
	for _, p := range s.running {
		if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range s.running {
		p.end()
		if text := p.printed(); strings.Contains(strings.ToLower(text), "violation") {
			t.Errorf("%s was refused something:\n%s", p.name, text)
		}
	}
}

// awaitWatch waits until the notifier watches the logs of whoever asked to be
// told of them: it notes in its bucket from where on.
func (s *installation) awaitWatch() {
	s.t.Helper()
	bucket, err := s.look().KeyValue(s.t.Context(), "NOTIFIER")
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

// newChat is a chat that tells what came where the test failed.
func newChat(t *testing.T) *webhooktest.Chat {
	t.Helper()
	chat := webhooktest.Start(t, webhook.Mattermost, "")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the chat took %+v and refused %v", chat.Messages(), chat.Refused())
		}
	})
	return chat
}

// told is of how many alerts the chat was told. A message that says of itself
// that it may be a second copy counts where the first one did not come.
func told(chat *webhooktest.Chat) (alerts int) {
	came := map[string]bool{}
	for _, message := range chat.Messages() {
		if !message.Repeat || !came[message.ID] {
			alerts += message.Count
		}
		came[message.ID] = true
	}
	return alerts
}

// lookAtPages signs in and opens what there is.
func (s *installation) lookAtPages() {
	s.t.Helper()
	s.submit("/sign-in", url.Values{"email": {email}, "password": {password}})
	s.submit("/projects/shop/logs/views", url.Values{"name": {"errors"}, "q": {"severity>=error"}})
	for _, path := range []string{
		"/projects", "/projects/shop/logs", "/projects/shop/events", "/projects/shop/settings", "/projects/shop/settings/tokens",
		"/projects/shop/settings/alerts", "/projects/shop/settings/quotas", "/operations", "/operations/dead-letters/1",
		"/installation/users", "/installation/keys", "/installation/audit", "/account",
	} {
		s.ask(s.request(http.MethodGet, s.admin+path, "", ""), http.StatusOK)
	}
	s.submit("/sign-out", nil)
}

// present are the processes that say to be there, by name.
func (s *installation) present() string {
	s.t.Helper()
	var names []string
	members, err := lease.Processes(s.t.Context(), s.look())
	if err != nil {
		s.t.Logf("members not read this time: %v", err)
	}
	for _, m := range members {
		names = append(names, m.Name)
	}
	return strings.Join(names, " ")
}

// streams are the names of what the queue has.
func (s *installation) streams() []string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	list := s.look().StreamNames(ctx)
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

// look is a connection of admin's, of the test.
func (s *installation) look() jetstream.JetStream {
	s.t.Helper()
	if s.eyes == nil {
		nc, js, err := stream.Connect(s.t.Context(), "nats://admin:"+secret+"@"+s.queue, streamtest.Calm("admin"))
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(nc.Close)
		s.eyes = js
	}
	return s.eyes
}
