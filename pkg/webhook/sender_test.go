package webhook_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/webhook"
	"github.com/logboom/logboom/pkg/webhook/webhooktest"
)

func message() webhook.Message { return messages()["event"] }

// Timeouts of attempts: patience where only a slow machine delays the answer,
// brief where the service never finishes its answer.
const (
	patience = time.Minute
	brief    = 10 * time.Second
)

// answering starts a service that always gives one answer, over TLS. The returned
// function sends it a message.
func answering(t *testing.T, format webhook.Format, answer http.HandlerFunc) func() webhook.Result {
	t.Helper()
	return answeringWithin(t, patience, format, answer)
}

func answeringWithin(t *testing.T, timeout time.Duration, format webhook.Format, answer http.HandlerFunc) func() webhook.Result {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // else the server does not notice a client that leaves
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	allow, err := webhook.ParseAllowList([]string{server.Listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	sender := webhook.NewSender(webhook.Config{Allow: allow, Roots: pool, Timeout: timeout})
	address := server.URL + "/bot1:" + webhooktest.Secret + "/x?chat_id=-1"
	return func() webhook.Result {
		return sender.Deliver(t.Context(), webhook.Target{Address: address, Format: format}, message())
	}
}

func TestAnswersMeanWhatTheServiceDocuments(t *testing.T) {
	t.Parallel()
	in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	for name, c := range map[string]struct {
		format   webhook.Format
		status   int
		header   map[string]string
		body     string
		want     webhook.Outcome
		min, max time.Duration // of After
	}{
		"slack ok":                   {format: webhook.Slack, status: 200, body: "ok", want: webhook.Delivered},
		"slack throttled":            {format: webhook.Slack, status: 429, header: map[string]string{"Retry-After": "30"}, min: 30 * time.Second, max: 30 * time.Second},
		"slack bad payload":          {format: webhook.Slack, status: 400, body: "invalid_payload", want: webhook.Rejected},
		"slack hook removed":         {format: webhook.Slack, status: 404, body: "no_service", want: webhook.Gone},
		"slack 400 of a dead hook":   {format: webhook.Slack, status: 400, body: "no_active_hooks", want: webhook.Gone},
		"slack archived":             {format: webhook.Slack, status: 410, body: "channel_is_archived", want: webhook.Gone},
		"discord ok":                 {format: webhook.Discord, status: 204, want: webhook.Delivered},
		"discord limit reached":      {format: webhook.Discord, status: 204, header: map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset-After": "1.5"}, want: webhook.Delivered, min: 1500 * time.Millisecond, max: 1500 * time.Millisecond},
		"discord limit not reached":  {format: webhook.Discord, status: 204, header: map[string]string{"X-RateLimit-Remaining": "4", "X-RateLimit-Reset-After": "1.5"}, want: webhook.Delivered},
		"discord throttled":          {format: webhook.Discord, status: 429, body: `{"retry_after":0.65,"global":false}`, min: 650 * time.Millisecond, max: 650 * time.Millisecond},
		"discord unknown webhook":    {format: webhook.Discord, status: 404, body: `{"code":10015}`, want: webhook.Gone},
		"discord invalid form":       {format: webhook.Discord, status: 400, body: `{"code":50035}`, want: webhook.Rejected},
		"teams accepted":             {format: webhook.Teams, status: 202, want: webhook.Delivered},
		"teams flow gone":            {format: webhook.Teams, status: 404, want: webhook.Gone},
		"mattermost limits":          {format: webhook.Mattermost, status: 429, header: map[string]string{"X-Ratelimit-Reset": "7"}, min: 7 * time.Second, max: 7 * time.Second},
		"a reset as an epoch":        {format: webhook.Mattermost, status: 429, header: map[string]string{"X-Ratelimit-Reset": fmt.Sprint(time.Now().Add(30 * time.Minute).Unix())}, min: 20 * time.Minute, max: 31 * time.Minute},
		"rocketchat ok":              {format: webhook.RocketChat, status: 200, body: `{"success":true}`, want: webhook.Delivered},
		"rocketchat 200 says no":     {format: webhook.RocketChat, status: 200, body: `{"success":false,"error":"x"}`, want: webhook.Rejected},
		"googlechat gone":            {format: webhook.GoogleChat, status: 403, want: webhook.Gone},
		"telegram throttled":         {format: webhook.Telegram, status: 429, body: `{"ok":false,"error_code":429,"parameters":{"retry_after":3}}`, min: 3 * time.Second, max: 3 * time.Second},
		"telegram chat not found":    {format: webhook.Telegram, status: 400, body: `{"ok":false,"error_code":400,"description":"Bad Request: chat not found"}`, want: webhook.Gone},
		"telegram says no with 200":  {format: webhook.Telegram, status: 200, body: `{"ok":false,"error_code":403,"description":"Forbidden: bot was kicked"}`, want: webhook.Gone},
		"generic created":            {format: webhook.Generic, status: 201, want: webhook.Delivered},
		"generic gone":               {format: webhook.Generic, status: 410, want: webhook.Gone},
		"generic other 4xx":          {format: webhook.Generic, status: 404, want: webhook.Rejected},
		"retry-after as a date":      {format: webhook.Generic, status: 503, header: map[string]string{"Retry-After": in(30 * time.Minute)}, min: 20 * time.Minute, max: 31 * time.Minute},
		"retry-after in the past":    {format: webhook.Generic, status: 503, header: map[string]string{"Retry-After": in(-time.Hour)}},
		"retry-after absurd":         {format: webhook.Generic, status: 503, header: map[string]string{"Retry-After": "99999999999999999999"}, min: time.Hour, max: time.Hour},
		"retry-after negative":       {format: webhook.Generic, status: 503, header: map[string]string{"Retry-After": "-5"}},
		"retry-after not a number":   {format: webhook.Generic, status: 503, header: map[string]string{"Retry-After": "NaN"}},
		"a request timeout":          {format: webhook.Generic, status: 408},
		"too early":                  {format: webhook.Generic, status: 425},
		"a redirect is not followed": {format: webhook.Generic, status: 302, header: map[string]string{"Location": "http://169.254.169.254/"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := answering(t, c.format, func(w http.ResponseWriter, _ *http.Request) {
				for key, value := range c.header {
					w.Header().Set(key, value)
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})()
			if r.Outcome != c.want || r.After < c.min || r.After > c.max || r.Unknown {
				t.Errorf("%+v, want %v with %s to %s", r, c.want, c.min, c.max)
			}
			if r.Outcome != webhook.Delivered && r.Detail == "" {
				t.Error("the result has no reason")
			}
		})
	}
}

func TestTelegramRequestsAreCorrectedOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refusal string
		wanted  []string
	}{
		"without markup":       {`{"ok":false,"error_code":400,"description":"Bad Request: can't parse entities"}`, []string{`"chat_id":"-1"`, `"text":"🚀 v2.1`}},
		"to the chat's new id": {`{"ok":false,"error_code":400,"description":"x","parameters":{"migrate_to_chat_id":-100777}}`, []string{`"chat_id":"-100777"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			r := answering(t, webhook.Telegram, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body) // an incomplete body fails the test below
				if requests.Add(1) == 1 {
					w.WriteHeader(http.StatusBadRequest)
					_, _ = io.WriteString(w, c.refusal)
					return
				}
				for _, text := range c.wanted {
					if !strings.Contains(string(body), text) {
						t.Errorf("the second request is %s", body)
					}
				}
				_, _ = io.WriteString(w, `{"ok":true}`)
			})()
			if r.Outcome != webhook.Delivered || requests.Load() != 2 {
				t.Errorf("%+v after %d requests", r, requests.Load())
			}
		})
	}
}

func TestAbsurdAnswersAreBoundedAndHarmless(t *testing.T) {
	t.Parallel()
	wait := func(r *http.Request) { <-r.Context().Done() }
	for name, c := range map[string]struct {
		answer  http.HandlerFunc
		want    webhook.Outcome
		unknown bool
		within  time.Duration
	}{
		"endless": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		}, webhook.Delivered, false, patience},
		"dripping": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			_, _ = io.WriteString(w, "o")
			_ = http.NewResponseController(w).Flush()
			wait(r)
		}, webhook.Delivered, false, brief},
		"silent": {func(_ http.ResponseWriter, r *http.Request) { wait(r) }, webhook.Failed, true, brief},
		"cut":    {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, webhook.Failed, true, patience},
		"huge headers": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
		}, webhook.Failed, true, patience},
		"screen commands": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, "\x1b[2J\u202e<!channel>"+strings.Repeat("y", 5000))
		}, webhook.Failed, false, patience},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := answeringWithin(t, c.within, webhook.Generic, c.answer)()
			if r.Outcome != c.want || r.Unknown != c.unknown {
				t.Errorf("%+v", r)
			}
			if len(r.Answer) > 1<<10+3 || strings.ContainsAny(r.Answer+r.Detail, "\x00\x1b\u202e") {
				t.Errorf("%d bytes of answer: %q", len(r.Answer), r.Answer)
			}
		})
	}
}

func TestTheAddressIsNeverShown(t *testing.T) {
	t.Parallel()
	echo := answering(t, webhook.Generic, func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "nothing at https://"+r.Host+r.URL.String()+" for "+webhooktest.Secret, http.StatusBadGateway)
	})
	closed := webhook.NewSender(webhook.Config{})
	target := webhook.Target{Address: "https://127.0.0.1:1/in/" + webhooktest.Secret + "?token=" + webhooktest.Secret}
	bad := webhook.Target{Address: "https://127.0.0.1:1/%zz" + webhooktest.Secret, Format: webhook.Slack}
	unresolved := webhook.Target{Address: "https://no-such-host.invalid/" + webhooktest.Secret}
	results := []webhook.Result{echo()}
	for _, to := range []webhook.Target{target, bad, unresolved} {
		results = append(results, closed.Deliver(t.Context(), to, message()))
	}
	for _, r := range results {
		if text := fmt.Sprintf("%+v", r); strings.Contains(text, webhooktest.Secret) || r.Outcome == webhook.Delivered {
			t.Errorf("%s", text)
		}
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("sent", "to", target)
	for _, text := range []string{fmt.Sprint(target), fmt.Sprintf("%+v", target), fmt.Sprintf("%#v", target), log.String()} {
		if strings.Contains(text, webhooktest.Secret) {
			t.Errorf("a target prints as %s", text)
		}
	}
}

// forbidden holds addresses that no webhook may reach, one of each range.
var forbidden = []string{
	"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.254", "127.0.0.1", "127.1.2.3", "169.254.169.254", "169.254.0.1",
	"172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.170", "192.0.2.1", "192.168.0.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1",
	"224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
	"::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
	"64:ff9b:1::1", "100::1", "2001::1", "2001:0:7f00:1::", "2001:db8::1", "2002:7f00:1::", "2002:a9fe:a9fe::1", "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254",
	"fe80::1", "fec0::1", "ff02::1", "4000::1",
}

func TestForbiddenAddressesAreRefusedInEveryForm(t *testing.T) {
	t.Parallel()
	sender := webhook.NewSender(webhook.Config{})
	for _, text := range forbidden {
		if err := webhook.Check(webhook.AllowList{}, net.JoinHostPort(text, "443"), true); !errors.Is(err, webhook.ErrForbidden) {
			t.Errorf("%s: %v", text, err)
		}
		host := text
		if strings.Contains(text, ":") {
			host = "[" + text + "]"
		}
		for _, address := range []string{"https://" + host + "/", "https://" + host + ":80/", "http://" + host + "/"} {
			r := sender.Deliver(t.Context(), webhook.Target{Address: address, Format: webhook.Generic}, message())
			if r.Outcome != webhook.Refused && !unroutable(r) {
				t.Errorf("%s: %+v", address, r)
			}
		}
	}
	for name, address := range map[string]string{
		"another port": "https://93.184.215.14:8443/", "plain http": "http://93.184.215.14/", "retired": "https://x.webhook.office.com/webhookb2/a",
		"no chat": "https://api.telegram.org/bot1:a/sendMessage", "a user": "https://user:password@example.org/", "a decimal": "https://2130706433/",
		"an octal": "https://0177.0.0.1/", "a short form": "https://127.1/", "loopback by name": "https://localhost/",
	} {
		r := sender.Deliver(t.Context(), webhook.Target{Address: address}, message())
		if r.Outcome != webhook.Refused && !strings.Contains(r.Detail, "lookup") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// unroutable reports whether the operating system refused the address before the
// guard saw it. Such an address is unreachable too.
func unroutable(r webhook.Result) bool {
	return r.Outcome == webhook.Failed && !r.Unknown && r.Status == 0
}

func TestGuardLetsThePublicInternetAndTheAllowListThrough(t *testing.T) {
	t.Parallel()
	allow, err := webhook.ParseAllowList([]string{"Chat.Internal:8065", "10.20.0.0/16", "fd12::/16"})
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]bool{
		"93.184.215.14:443": true, "[2606:2800:21f:cb07:6820:80da:af6b:8b2c]:443": true, "93.184.215.14:80": true, "93.184.215.14:22": false,
		"10.20.3.4:8080": true, "10.21.3.4:443": false, "[fd12::1]:9000": true, "[fd13::1]:443": false, "[::ffff:10.20.3.4]:8080": true,
	} {
		if err := webhook.Check(allow, address, true); (err == nil) != want || err != nil && !errors.Is(err, webhook.ErrForbidden) {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := webhook.Check(allow, "93.184.215.14:80", false); !errors.Is(err, webhook.ErrForbidden) {
		t.Errorf("plain http to the public internet: %v", err)
	}
	if err := webhook.Check(allow, "10.20.3.4:80", false); err != nil {
		t.Errorf("plain http to an allowed network: %v", err)
	}
	for _, entry := range []string{"chat.internal", "10.0.0.0/99", ":80", "chat.internal:", "https://chat.internal"} {
		if _, err := webhook.ParseAllowList([]string{entry}); err == nil {
			t.Errorf("%q was accepted", entry)
		}
	}
}

func TestTheResolvedAddressIsCheckedWhenConnecting(t *testing.T) {
	t.Parallel()
	var rebound atomic.Bool
	names := startNames(t, func(name string) netip.Addr {
		if name == "rebinding.example." && !rebound.Load() {
			return netip.MustParseAddr("93.184.215.14") // what a check before the connection would see
		}
		return netip.MustParseAddr("127.0.0.1")
	})
	if first, err := names.LookupNetIP(t.Context(), "ip4", "rebinding.example."); err != nil || first[0].Unmap().String() != "93.184.215.14" {
		t.Fatalf("the first lookup returned %v: %v", first, err)
	}
	rebound.Store(true)
	sender := webhook.NewSender(webhook.Config{Resolver: names, Timeout: patience})
	for _, host := range []string{"rebinding.example", "internal.example"} {
		r := sender.Deliver(t.Context(), webhook.Target{Address: "https://" + host + "/x"}, message())
		if r.Outcome != webhook.Refused {
			t.Errorf("%s: %+v", host, r)
		}
	}
}

// startNames returns a resolver with its own name server, which answers every
// question for an IPv4 address with a function.
func startNames(t *testing.T, answer func(name string) netip.Addr) *net.Resolver {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		question := make([]byte, 512)
		for {
			n, from, err := server.ReadFrom(question)
			if err != nil {
				return
			}
			_, _ = server.WriteTo(answerName(question[:n], answer), from)
		}
	}()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

// answerName returns a DNS answer (RFC 1035) to a question for one name.
func answerName(question []byte, answer func(name string) netip.Addr) []byte {
	name, at := "", 12
	for question[at] != 0 {
		length := int(question[at])
		name += string(question[at+1:at+1+length]) + "."
		at += 1 + length
	}
	kind := binary.BigEndian.Uint16(question[at+1:])
	end := at + 5
	out := append([]byte{question[0], question[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question[12:end]...)
	if kind == 1 {
		out[7] = 1
		ip := answer(name).As4()
		out = append(out, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		out = append(out, ip[:]...)
	}
	return out
}

func TestSignaturesAreValidForEachKeyAndProject(t *testing.T) {
	t.Parallel()
	signer := webhook.NewSigner("new key", "old key")
	for key, project := range map[string]string{"new key": "shop~1", "old key": "shop~1"} {
		secret, err := webhook.NewSigner(key).Secret(project)
		if err != nil || !strings.HasPrefix(secret, "whsec_") {
			t.Fatalf("%q: %v", secret, err)
		}
		chat := webhooktest.Start(t, webhook.Generic, secret)
		sender := senderTo(t, chat, webhook.Config{Signer: signer})
		if r := sender.Deliver(t.Context(), webhook.Target{Address: chat.Address(), Format: webhook.Generic, ProjectID: project}, message()); r.Outcome != webhook.Delivered {
			t.Errorf("%s: %+v", key, r)
		}
		if r := sender.Deliver(t.Context(), webhook.Target{Address: chat.Address(), Format: webhook.Generic, ProjectID: "other~2"}, message()); r.Outcome == webhook.Delivered {
			t.Errorf("another project's signature is valid")
		}
	}
	if secret, err := webhook.NewSigner().Secret("shop~1"); secret != "" || err != nil {
		t.Errorf("without a key: %q, %v", secret, err)
	}
}
