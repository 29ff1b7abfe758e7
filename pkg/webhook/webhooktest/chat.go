// Package webhooktest plays the chat services in tests. A Chat checks messages as
// strictly as the service documents, and fails on request.
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

// Secret is part of the address of every Chat. It must never be shown.
const Secret = "canary-7f3a9c2e"

// Message is a message that the service accepted.
type Message struct {
	ID     string
	Count  int  // how many alerts a digest stands for; else 1
	Repeat bool // the message says that it may be a second copy
	Body   string
	At     time.Time
}

// Chat is a server that plays one service.
type Chat struct {
	Format webhook.Format
	server *httptest.Server
	secret string // for checking signatures; "": they are not checked
	path   string

	mu       sync.Mutex
	messages []Message
	refused  []string
	known    map[string]bool // the IDs of accepted messages
	faults   Faults
	random   *rand.Rand
	requests int
	failing  bool
}

// Faults holds the probability of each fault, in percent.
type Faults struct {
	Throttle, Fail, Hang, Reset, Redirect int
}

// Start starts a service, which runs until the test ends. It checks signatures
// against secret, unless secret is empty.
func Start(t testing.TB, format webhook.Format, secret string) *Chat {
	t.Helper()
	c := &Chat{Format: format, secret: secret, path: paths[format], known: map[string]bool{}, random: rand.New(rand.NewPCG(1, uint64(len(format))))}
	c.server = httptest.NewTLSServer(http.HandlerFunc(c.Serve))
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

// Address returns the address to which messages are sent.
func (c *Chat) Address() string { return c.server.URL + c.path }

// URL returns the address without its secret part.
func (c *Chat) URL() string { return c.server.URL }

// Serve answers a request, which may have come to another server.
func (c *Chat) Serve(w http.ResponseWriter, r *http.Request) {
	name, accept := c.chooseFault()
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	if name == "hang" || name == "reset" {
		if accept {
			_ = c.receive(r, body)
		}
		c.breakOff(name, r)
	}
	switch name {
	case "throttle":
		c.throttle(w)
	case "fail":
		http.Error(w, "internal error at "+r.URL.String(), http.StatusInternalServerError)
	case "redirect":
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusFound)
	default:
		if err := c.receive(r, body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		c.confirm(w)
	}
}

// HostPort returns the address in the form of an allow-list.
func (c *Chat) HostPort() string { return c.server.Listener.Addr().String() }

// Roots returns certificates that trust the servers of these tests.
func (c *Chat) Roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(c.server.Certificate())
	return pool
}

// Certificate returns the server's certificate in PEM form, for processes that
// trust it through SSL_CERT_FILE.
func (c *Chat) Certificate() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.server.Certificate().Raw})
}

// SetFaults makes some of the requests fail from now on.
func (c *Chat) SetFaults(f Faults) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = f
}

// FailAlways makes every request fail with 500 from now on.
func (c *Chat) FailAlways() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failing = true
}

// Messages returns the messages accepted so far, in order.
func (c *Chat) Messages() []Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Message(nil), c.messages...)
}

// Refused returns, for each refused message, what was wrong with it.
func (c *Chat) Refused() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.refused...)
}

// Requests returns the number of requests so far.
func (c *Chat) Requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}

// chooseFault returns the fault of the next request, or "". accept reports whether
// the message is accepted nevertheless.
func (c *Chat) chooseFault() (name string, accept bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	if c.failing {
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

// breakOff ends a request without an answer: at once, or when its client gives
// up.
func (c *Chat) breakOff(name string, r *http.Request) {
	if name == "hang" {
		select {
		case <-r.Context().Done():
		case <-time.After(30 * time.Second):
		}
	}
	panic(http.ErrAbortHandler)
}

// throttle asks the client to pause, in the form of the service.
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

// confirm answers as the service does after it accepted a message.
func (c *Chat) confirm(w http.ResponseWriter) {
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

// footer finds the ID at the end of a message; digest the count of a digest.
var (
	footer = regexp.MustCompile(`Z · ((?:[a-z]-)?[0-9a-z-]+)( · sent again)?`)
	digest = regexp.MustCompile(`([0-9]+) alerts`)
)

// receive checks a message and stores it.
func (c *Chat) receive(r *http.Request, body []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, err := c.parse(r, body)
	if err != nil {
		c.refused = append(c.refused, err.Error())
		return err
	}
	if c.Format.Idempotent() && c.known[m.ID] {
		return nil
	}
	c.known[m.ID] = true
	c.messages = append(c.messages, m)
	return nil
}

func (c *Chat) parse(r *http.Request, body []byte) (Message, error) {
	if r.Method != http.MethodPost || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		return Message{}, fmt.Errorf("%s %s", r.Method, r.Header.Get("Content-Type"))
	}
	if !strings.HasPrefix(c.path, r.URL.Path) {
		return Message{}, fmt.Errorf("path %s", r.URL.Path)
	}
	if err := Check(c.Format, body); err != nil {
		return Message{}, err
	}
	if c.Format == webhook.Telegram && r.URL.RawQuery != "" {
		return Message{}, fmt.Errorf("the URL contains the chat: %s", r.URL.RawQuery)
	}
	m := Message{Count: 1, Body: string(body), At: time.Now()}
	if c.Format == webhook.Generic {
		return c.parseGeneric(r, m)
	}
	var text strings.Builder
	collect(&text, body)
	found := footer.FindStringSubmatch(text.String())
	if found == nil {
		return Message{}, fmt.Errorf("no id in %s", body)
	}
	m.ID, m.Repeat = found[1], found[2] != ""
	if count := digest.FindStringSubmatch(text.String()); count != nil && strings.HasPrefix(m.ID, "d-") {
		m.Count, _ = strconv.Atoi(count[1]) // it is digits
	}
	if c.Format == webhook.GoogleChat && r.URL.Query().Get("requestId") != m.ID {
		return Message{}, fmt.Errorf("requestId %q of message %s", r.URL.Query().Get("requestId"), m.ID)
	}
	return m, nil
}

// parseGeneric does what a receiver of the generic format does. It checks the
// signature first.
func (c *Chat) parseGeneric(r *http.Request, m Message) (Message, error) {
	if c.secret != "" && !verify(c.secret, r.Header, m.Body) {
		return Message{}, fmt.Errorf("signature %q", r.Header.Get("webhook-signature"))
	}
	var body struct {
		ID    string `json:"id"`
		Count int    `json:"count"`
	}
	if err := json.Unmarshal([]byte(m.Body), &body); err != nil {
		return Message{}, err
	}
	if m.ID = body.ID; r.Header.Get("webhook-id") != body.ID {
		return Message{}, fmt.Errorf("webhook-id %q of message %s", r.Header.Get("webhook-id"), body.ID)
	}
	if strings.HasPrefix(body.ID, "d-") {
		m.Count = body.Count
	}
	return m, nil
}
