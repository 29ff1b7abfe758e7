package webhook

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Target is where messages go. Printing it shows no address.
type Target struct {
	Address   string // a secret
	Format    Format // Auto or empty: told by the address
	ProjectID string // whose secret signs, in the generic format
}

// String names the format only.
func (t Target) String() string { return string(Resolve(t.Format, t.Address)) + " ***" }

// GoString keeps %#v from printing the address.
func (t Target) GoString() string { return t.String() }

// LogValue keeps slog from printing the address.
func (t Target) LogValue() slog.Value { return slog.StringValue(t.String()) }

// Config is for operators, and for tests.
type Config struct {
	Allow   AllowList     // whom webhooks may reach beside the public internet
	Timeout time.Duration // of an attempt in all, half of it for the way to a connection; 0 means 10 s
	Signer  *Signer       // nil: the generic format is not signed

	Resolver *net.Resolver  // nil: the system's
	Roots    *x509.CertPool // nil: the system's
}

const defaultTimeout = 10 * time.Second

// Sender delivers messages. It keeps nothing and may be used from many
// goroutines.
type Sender struct {
	timeout       time.Duration
	signer        *Signer
	plain, secure *http.Client
}

// NewSender makes a sender; it connects to nothing.
func NewSender(cfg Config) *Sender {
	s := &Sender{timeout: cfg.Timeout, signer: cfg.Signer}
	if s.timeout <= 0 {
		s.timeout = defaultTimeout
	}
	g := newGuard(cfg.Allow, cfg.Resolver, s.timeout/2)
	s.plain, s.secure = g.client(false, nil), g.client(true, cfg.Roots)
	if s.signer == nil {
		s.signer = NewSigner()
	}
	return s
}

// Deliver makes one attempt and says what became of it. In Telegram's case it
// may take a second request: without markup where that is not understood, or
// to the chat that the group has become.
func (s *Sender) Deliver(ctx context.Context, t Target, m Message) Result {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	format := Resolve(t.Format, t.Address)
	at, err := endpoint(format, t.Address, m.ID)
	if err != nil {
		return Result{Outcome: Refused, Detail: err.Error()}
	}
	m.Repeat = m.Repeat && !format.Idempotent()
	chat := chatOf(format, t.Address)
	r, said := s.attempt(ctx, t, format, at, chat, m)
	if format == Telegram && r.Outcome == Rejected {
		if again, ok := mended(chat, said); ok {
			r, _ = s.attempt(ctx, t, format, at, again, m)
		}
	}
	return r
}

// chatOf is what a Telegram address says in its query.
func chatOf(format Format, address string) url.Values {
	u, err := url.Parse(address)
	if err != nil || format != Telegram {
		return url.Values{}
	}
	return u.Query()
}

// mended is what to ask Telegram instead, where its answer says how.
func mended(chat url.Values, said spoken) (url.Values, bool) {
	again := url.Values{"chat_id": chat["chat_id"], "message_thread_id": chat["message_thread_id"]}
	switch {
	case said.Parameters.MigrateTo != 0:
		again.Set("chat_id", strconv.FormatInt(said.Parameters.MigrateTo, 10))
	case strings.Contains(said.Description, "can't parse entities"):
		again.Set("parse_mode", "none")
	default:
		return nil, false
	}
	return again, true
}

// attempt is one request.
func (s *Sender) attempt(ctx context.Context, t Target, format Format, at *url.URL, chat url.Values, m Message) (Result, spoken) {
	body, err := payload(format, at, chat, m)
	if err != nil {
		return Result{Outcome: Rejected, Detail: err.Error()}, spoken{}
	}
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	request, err := s.request(ctx, t, format, at, m, body)
	if err != nil {
		return Result{Outcome: Refused, Detail: err.Error()}, spoken{}
	}
	client := s.secure
	if at.Scheme == "http" {
		client = s.plain
	}
	response, err := client.Do(request)
	if err != nil {
		return unanswered(t, err, sent.Load()), spoken{}
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxRead))
	r := judge(format, response.StatusCode, response.Header, answer, time.Now())
	if err != nil && r.Detail == "" {
		r.Detail = "the answer broke off"
	}
	r.Answer = harmless(t.Address, string(answer))
	return r, listen(answer)
}

func (s *Sender) request(ctx context.Context, t Target, format Format, at *url.URL, m Message, body []byte) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), bytes.NewReader(body))
	if err != nil {
		return nil, errAddress // the error repeats the address
	}
	request.Header.Set("Content-Type", "application/json; charset=utf-8")
	request.Header.Set("User-Agent", "Logboom")
	if format == Generic {
		if err := s.signer.sign(request.Header, t.ProjectID, m.ID, time.Now(), body); err != nil {
			return nil, err
		}
	}
	return request, nil
}

// unanswered is an attempt that came to no answer. The error of the client
// repeats the address; what is inside of it does not.
func unanswered(t Target, err error, sent bool) Result {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	r := Result{Outcome: Failed, Detail: scrub(t.Address, err.Error()), Unknown: sent}
	var timeout net.Error
	switch {
	case errors.Is(err, ErrForbidden):
		r.Outcome = Refused
	case sent && errors.As(err, &timeout) && timeout.Timeout():
		r.Detail = "the service did not answer in time"
	case sent:
		r.Detail = fmt.Sprintf("the service did not answer: %s", r.Detail)
	}
	r.Detail = cut(cleanLine(r.Detail), maxDetail)
	return r
}

// harmless is the beginning of an answer as it may be kept and shown.
func harmless(address, answer string) string {
	answer = clean(scrub(address, answer))
	if len(answer) > maxAnswer {
		answer = fit(answer, maxAnswer, plainBytes)
	}
	return answer
}

// scrub takes out of a text what is secret of an address: all behind the host,
// and each longer part of it.
func scrub(address, text string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	secrets := []string{address, u.RequestURI(), u.Path}
	for _, part := range strings.FieldsFunc(u.RequestURI(), func(r rune) bool { return strings.ContainsRune("/?&=:", r) }) {
		if len(part) >= 8 {
			secrets = append(secrets, part)
		}
	}
	for _, values := range u.Query() {
		secrets = append(secrets, values...)
	}
	for _, secret := range secrets {
		if len(secret) > 3 {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	return text
}
