// Package webhook delivers messages to chats. It builds the body for each
// service, checks which addresses a webhook may reach, and interprets answers.
//
// It is the last part of an alert's path, behind the notifier's queue; admin
// sends test messages with it. It stores nothing and retries nothing.
//
//	Message ─▶ clean ─▶ body of the format ─▶ guard of the connection ─▶ answer ─▶ Result
//
// What a newcomer would get wrong: an error does not mean that the message did
// not arrive. If a request was sent and no answer came, nobody knows, and
// Result.Unknown is true. Also, an address is a secret, because everybody who
// has it can write to the chat. No Result, error or log line contains it.
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

// Target is an address to which messages are sent. No print of it shows the
// address.
type Target struct {
	Address   string // a secret
	Format    Format // Auto or empty: chosen by the address
	ProjectID string // the project whose secret signs the generic format
}

// String returns the format and hides the address.
func (t Target) String() string { return string(Resolve(t.Format, t.Address)) + " ***" }

// GoString hides the address from %#v.
func (t Target) GoString() string { return t.String() }

// LogValue hides the address from slog.
func (t Target) LogValue() slog.Value { return slog.StringValue(t.String()) }

// Config configures a Sender.
type Config struct {
	Allow   AllowList     // hosts and networks that are allowed beside the public internet
	Timeout time.Duration // of an attempt, half of it for the connection. 0 means 10 s
	Signer  *Signer       // nil: the generic format is not signed

	Resolver *net.Resolver  // nil: the system's
	Roots    *x509.CertPool // nil: the system's
}

const defaultTimeout = 10 * time.Second

// Sender delivers messages. It keeps no state; any number of goroutines may use
// it.
type Sender struct {
	timeout       time.Duration
	signer        *Signer
	plain, secure *http.Client
}

// NewSender returns a sender. It does not connect to anything.
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

// Deliver makes one attempt and returns its result. For Telegram it may make a
// second request: without markup if Telegram did not accept it, or to the new
// chat of a group that was migrated.
func (s *Sender) Deliver(ctx context.Context, t Target, m Message) Result {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	t.Format = Resolve(t.Format, t.Address)
	to, err := endpoint(t.Format, t.Address, m.ID)
	if err != nil {
		return Result{Outcome: Refused, Detail: err.Error()}
	}
	m.Repeat = m.Repeat && !t.Format.Idempotent()
	chat := url.Values{}
	if u, err := url.Parse(t.Address); err == nil && t.Format == Telegram {
		chat = u.Query()
	}
	r, rep := s.attempt(ctx, t, to, chat, m)
	if t.Format == Telegram && r.Outcome == Rejected {
		if chat, ok := correctChat(chat, rep); ok {
			r, _ = s.attempt(ctx, t, to, chat, m)
		}
	}
	return r
}

// correctChat returns the corrected parameters for Telegram, if its answer says
// how to correct them.
func correctChat(chat url.Values, rep reply) (url.Values, bool) {
	corrected := url.Values{"chat_id": chat["chat_id"], "message_thread_id": chat["message_thread_id"]}
	switch {
	case rep.Parameters.MigrateTo != 0:
		corrected.Set("chat_id", strconv.FormatInt(rep.Parameters.MigrateTo, 10))
	case strings.Contains(rep.Description, "can't parse entities"):
		corrected.Set("parse_mode", "none")
	default:
		return nil, false
	}
	return corrected, true
}

// attempt makes one request.
func (s *Sender) attempt(ctx context.Context, t Target, to *url.URL, chat url.Values, m Message) (Result, reply) {
	body, err := payload(t.Format, to, chat, m)
	if err != nil {
		return Result{Outcome: Rejected, Detail: err.Error()}, reply{}
	}
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	request, err := s.newRequest(ctx, t, to, m, body)
	if err != nil {
		return Result{Outcome: Refused, Detail: err.Error()}, reply{}
	}
	client := s.secure
	if to.Scheme == "http" {
		client = s.plain
	}
	response, err := client.Do(request)
	if err != nil {
		return failure(t, err, sent.Load()), reply{}
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxRead))
	r := classify(t.Format, response.StatusCode, response.Header, answer, time.Now())
	if err != nil && r.Detail == "" {
		r.Detail = "the answer was incomplete"
	}
	r.Answer = fit(clean(redact(t.Address, string(answer))), maxAnswer, plainBytes)
	return r, decodeReply(answer)
}

func (s *Sender) newRequest(ctx context.Context, t Target, to *url.URL, m Message, body []byte) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, errAddress // the error would show the address
	}
	request.Header.Set("Content-Type", "application/json; charset=utf-8")
	request.Header.Set("User-Agent", "Logboom")
	if t.Format == Generic {
		if err := s.signer.sign(request.Header, t.ProjectID, m.ID, time.Now(), body); err != nil {
			return nil, err
		}
	}
	return request, nil
}

// failure returns the result of an attempt without an answer. The client's error
// contains the address; the error that it wraps does not.
func failure(t Target, err error, sent bool) Result {
	var wrapper *url.Error
	if errors.As(err, &wrapper) {
		err = wrapper.Err
	}
	r := Result{Outcome: Failed, Detail: redact(t.Address, err.Error()), Unknown: sent}
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

// redact replaces the secret parts of an address in a text: everything behind
// the host, and each longer part of it.
func redact(address, text string) string {
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
