// Package webhooktest stands in for the chat services in tests: a server for
// each format that checks what it gets as strictly as the real one documents,
// and that misbehaves when it is told to.
package webhooktest

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/webhook"
)

// Secret is part of every address that a Chat gives: it must show up nowhere.
const Secret = "canary-7f3a9c2e"

// Got is a message that the service took.
type Got struct {
	ID     string
	Count  int  // how many alerts a digest stands for; 1 for what is no digest
	Repeat bool // people were told that it may be a second copy
	Body   string
	At     time.Time
}

// Chat is one service.
type Chat struct {
	Format webhook.Format
	server *httptest.Server
	secret string // of signatures; "": they are not checked
	path   string

	mu       sync.Mutex
	got      []Got
	bad      []string
	known    map[string]bool // ids of formats that recognise a repeat
	faults   Faults
	random   *rand.Rand
	requests int
	dead     bool
}

// Faults are chances out of a hundred.
type Faults struct {
	Throttle, Fail, Hang, Reset, Redirect int
}

// Start runs a service until the test ends. Signatures are checked against
// secret, unless it is empty.
func Start(t testing.TB, format webhook.Format, secret string) *Chat {
	t.Helper()
	c := &Chat{Format: format, secret: secret, path: paths[format], known: map[string]bool{}, random: rand.New(rand.NewPCG(1, uint64(len(format))))}
	c.server = httptest.NewTLSServer(http.HandlerFunc(c.serve))
	t.Cleanup(c.server.Close)
	return c
}

var paths = map[webhook.Format]string{
	webhook.Slack:      "/services/T0001/B0001/" + Secret,
	webhook.Discord:    "/api/v10/webhooks/1234567890/" + Secret,
	webhook.Teams:      "/workflows/" + Secret + "/triggers/manual/paths/invoke?sig=" + Secret,
	webhook.Mattermost: "/hooks/" + Secret,
	webhook.RocketChat: "/hooks/65f0c0/" + Secret,
	webhook.GoogleChat: "/v1/spaces/AAAA/messages?key=k&token=" + Secret,
	webhook.Telegram:   "/bot12345:" + Secret + "/sendMessage?chat_id=-100123",
	webhook.Generic:    "/in/" + Secret,
}

// Address is where the service takes messages.
func (c *Chat) Address() string { return c.server.URL + c.path }

// URL is the address without its secret part.
func (c *Chat) URL() string { return c.server.URL }

// Serve answers a request that came in elsewhere.
func (c *Chat) Serve(w http.ResponseWriter, r *http.Request) { c.serve(w, r) }

// HostPort is for allow-lists.
func (c *Chat) HostPort() string { return c.server.Listener.Addr().String() }

// Roots trust the servers of these tests.
func (c *Chat) Roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(c.server.Certificate())
	return pool
}

// Certificate is what its servers show, in PEM: for processes that are to trust
// them by SSL_CERT_FILE.
func (c *Chat) Certificate() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.server.Certificate().Raw})
}

// Misbehave makes some of the requests fail from now on.
func (c *Chat) Misbehave(f Faults) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = f
}

// Die makes every request fail with 500 from now on.
func (c *Chat) Die() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = true
}

// Got is what it took so far, in order.
func (c *Chat) Got() []Got {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Got(nil), c.got...)
}

// Bad is what was wrong with messages that it refused.
func (c *Chat) Bad() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.bad...)
}

// Requests is how many it was asked.
func (c *Chat) Requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}

// fault is what happens to a request: nothing, or one of the faults; after
// tells whether the message is taken all the same.
func (c *Chat) fault() (name string, after bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	if c.dead {
		return "fail", false
	}
	draw := c.random.IntN(100)
	for _, f := range []struct {
		name   string
		chance int
	}{{"throttle", c.faults.Throttle}, {"fail", c.faults.Fail}, {"hang", c.faults.Hang}, {"reset", c.faults.Reset}, {"redirect", c.faults.Redirect}} {
		if draw -= f.chance; draw < 0 {
			return f.name, c.random.IntN(2) == 0
		}
	}
	return "", true
}

func (c *Chat) serve(w http.ResponseWriter, r *http.Request) {
	name, after := c.fault()
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	if name == "hang" || name == "reset" {
		if after {
			_ = c.take(r, body)
		}
		c.silence(name, r)
	}
	switch name {
	case "throttle":
		c.throttle(w)
	case "fail":
		http.Error(w, "internal error at "+r.URL.String(), http.StatusInternalServerError)
	case "redirect":
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusFound)
	default:
		if err := c.take(r, body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		c.accept(w)
	}
}

// silence ends a request without an answer: at once, or when its sender gives up.
func (c *Chat) silence(name string, r *http.Request) {
	if name == "hang" {
		select {
		case <-r.Context().Done():
		case <-time.After(30 * time.Second):
		}
	}
	panic(http.ErrAbortHandler)
}

// throttle asks to be left alone, in the service's own way.
func (c *Chat) throttle(w http.ResponseWriter) {
	answer := ""
	switch c.Format {
	case webhook.Discord:
		w.Header().Set("X-RateLimit-Remaining", "0")
		w.Header().Set("X-RateLimit-Reset-After", "0.05")
		answer = `{"message":"You are being rate limited.","retry_after":0.05,"global":false}`
	case webhook.Telegram:
		answer = `{"ok":false,"error_code":429,"description":"Too Many Requests: retry after 1","parameters":{"retry_after":1}}`
	case webhook.Mattermost:
		w.Header().Set("X-RateLimit-Reset", "0")
	case webhook.Generic:
		w.Header().Set("Retry-After", time.Now().UTC().Format(http.TimeFormat))
	default:
		w.Header().Set("Retry-After", "0")
	}
	w.WriteHeader(http.StatusTooManyRequests)
	_, _ = io.WriteString(w, answer)
}

// accept answers as the service does when all is well.
func (c *Chat) accept(w http.ResponseWriter) {
	switch c.Format {
	case webhook.Discord:
		w.WriteHeader(http.StatusNoContent)
	case webhook.Teams:
		w.WriteHeader(http.StatusAccepted)
	case webhook.RocketChat:
		_, _ = io.WriteString(w, `{"success":true}`)
	case webhook.Telegram:
		_, _ = io.WriteString(w, `{"ok":true,"result":{"message_id":1}}`)
	default:
		_, _ = io.WriteString(w, "ok")
	}
}

// footer is where a message names itself; in Markdown its marks are escaped.
var (
	footer = regexp.MustCompile(`Z · ((?:[a-z]-)?[0-9a-z-]+)( · sent again)?`)
	digest = regexp.MustCompile(`([0-9]+) alerts`)
)

// take checks a message and keeps it.
func (c *Chat) take(r *http.Request, body []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	got, err := c.read(r, body)
	if err != nil {
		c.bad = append(c.bad, err.Error())
		return err
	}
	if c.Format.Idempotent() && c.known[got.ID] {
		return nil
	}
	c.known[got.ID] = true
	c.got = append(c.got, got)
	return nil
}

func (c *Chat) read(r *http.Request, body []byte) (Got, error) {
	if r.Method != http.MethodPost || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		return Got{}, fmt.Errorf("%s %s", r.Method, r.Header.Get("Content-Type"))
	}
	if !strings.HasPrefix(c.path, r.URL.Path) {
		return Got{}, fmt.Errorf("path %s", r.URL.Path)
	}
	if err := Check(c.Format, body); err != nil {
		return Got{}, err
	}
	if c.Format == webhook.Telegram && r.URL.RawQuery != "" {
		return Got{}, fmt.Errorf("the chat is in the address: %s", r.URL.RawQuery)
	}
	got := Got{Count: 1, Body: string(body), At: time.Now()}
	if c.Format == webhook.Generic {
		return c.readGeneric(r, got)
	}
	var text strings.Builder
	collect(&text, body)
	found := footer.FindStringSubmatch(text.String())
	if found == nil {
		return Got{}, fmt.Errorf("no id in %s", body)
	}
	got.ID, got.Repeat = found[1], found[2] != ""
	if count := digest.FindStringSubmatch(text.String()); count != nil && strings.HasPrefix(got.ID, "d-") {
		got.Count, _ = strconv.Atoi(count[1]) // it is digits
	}
	if c.Format == webhook.GoogleChat && r.URL.Query().Get("requestId") != got.ID {
		return Got{}, fmt.Errorf("requestId %q of message %s", r.URL.Query().Get("requestId"), got.ID)
	}
	return got, nil
}

// readGeneric is what a receiver of ours does: check the signature first.
func (c *Chat) readGeneric(r *http.Request, got Got) (Got, error) {
	if c.secret != "" && !signed(c.secret, r.Header, got.Body) {
		return Got{}, fmt.Errorf("signature %q", r.Header.Get("webhook-signature"))
	}
	var body struct {
		ID    string `json:"id"`
		Count int    `json:"count"`
	}
	if err := json.Unmarshal([]byte(got.Body), &body); err != nil {
		return Got{}, err
	}
	if got.ID = body.ID; r.Header.Get("webhook-id") != body.ID {
		return Got{}, fmt.Errorf("webhook-id %q of message %s", r.Header.Get("webhook-id"), body.ID)
	}
	if strings.HasPrefix(body.ID, "d-") {
		got.Count = body.Count
	}
	return got, nil
}
