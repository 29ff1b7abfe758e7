package ingest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/quota"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/token"
)

const hecPath = "/services/collector/event/1.0"

const hecOK = `{"text":"Success","code":0}`

// ask sends a request with exactly these headers.
func (b *bench) ask(method, path, body string, header ...string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	answer := httptest.NewRecorder()
	b.server.ServeHTTP(answer, request)
	return answer
}

// splunk posts like Docker, without a Content-Type.
func (b *bench) splunk(path, body string, header ...string) *httptest.ResponseRecorder {
	return b.ask(http.MethodPost, path, body, append([]string{"Authorization", "Splunk " + b.token}, header...)...)
}

func checkHEC(t *testing.T, answer *httptest.ResponseRecorder, status int, body string) {
	t.Helper()
	if answer.Code != status || answer.Body.String() != body || answer.Header().Get("X-Request-Id") == "" || answer.Header().Get("Content-Type") != "application/json" {
		t.Errorf("answer %d %s, not %d %s: %v", answer.Code, answer.Body, status, body, answer.Header())
	}
	if later := answer.Header().Get("Retry-After"); (later != "") != (status == http.StatusServiceUnavailable && !strings.Contains(body, "18")) {
		t.Errorf("answer %d with Retry-After %q", answer.Code, later)
	}
}

// dropped returns what was counted as dropped and not sent yet, by reason.
func (b *bench) dropped() map[string]record.Drop {
	b.server.drops.mu.Lock()
	defer b.server.drops.mu.Unlock()
	all := map[string]record.Drop{}
	for key, count := range b.server.drops.counts {
		all[key.reason] = *count
	}
	return all
}

var (
	eventPaths = []string{"/services/collector", "/services/collector/event", hecPath}
	rawPaths   = []string{"/services/collector/raw", "/services/collector/raw/1.0"}
)

func TestContainerLogsAreAcceptedOnEveryPath(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	var want []string
	for i, path := range eventPaths {
		checkHEC(t, b.splunk(path, fmt.Sprintf(`{"event":"e%d a"}{"event":{"line":"e%d b"}}`, i, i)), http.StatusOK, hecOK)
		want = append(want, fmt.Sprintf("e%d a", i), fmt.Sprintf("e%d b", i))
	}
	for i, path := range rawPaths {
		checkHEC(t, b.splunk(path+"?host=h&token=ignored", fmt.Sprintf("r%d a\r\n\nr%d b", i, i)), http.StatusOK, hecOK)
		want = append(want, fmt.Sprintf("r%d a", i), fmt.Sprintf("r%d b", i))
	}
	if got := lines(t, b.queued(t, "LOGS_0")); !slices.Equal(got, want) {
		t.Errorf("on the queue: %q", got)
	}
}

func TestOptionsNeedNoToken(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	paths := slices.Concat(eventPaths, rawPaths, []string{"/services/collector/health", "/services/collector/health/1.0", "/v1/logs/shop", "/v1/events/shop"})
	for _, path := range paths {
		answer := b.ask(http.MethodOptions, path, "", "Origin", "https://example.com", "Access-Control-Request-Method", "POST")
		if answer.Code != http.StatusOK || answer.Body.Len() != 0 || answer.Header().Get("X-Request-Id") == "" || !strings.HasPrefix(answer.Header().Get("Allow"), "OPTIONS, ") {
			t.Errorf("%s: answer %d, %v", path, answer.Code, answer.Header())
		}
	}
	b.health.Drain()
	if answer := b.ask(http.MethodOptions, hecPath, ""); answer.Code != http.StatusOK {
		t.Errorf("while it stops: answer %d", answer.Code)
	}
}

func TestContainerTokenIsAcceptedInEachForm(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	basic := func(pair string) string { return base64.StdEncoding.EncodeToString([]byte(pair)) }
	unknown := token.New()
	for authorization, want := range map[string]string{
		"Splunk " + b.token:            hecOK,
		"splunk " + b.token:            hecOK,
		"SPLUNK  " + b.token + " ":     hecOK,
		"Bearer " + b.token:            hecOK,
		"bEARER " + b.token:            hecOK,
		"Basic " + basic("x:"+b.token): hecOK,
		"basic " + basic(":"+b.token):  hecOK,

		"":                                 `{"text":"Token is required","code":2}`,
		"Splunk":                           `{"text":"Token is required","code":2}`,
		"Bearer ":                          `{"text":"Token is required","code":2}`,
		"Basic " + basic("x:"):             `{"text":"Token is required","code":2}`,
		"Basic " + basic(b.token):          `{"text":"Invalid authorization","code":3}`,
		"Basic !":                          `{"text":"Invalid authorization","code":3}`,
		"Digest " + b.token:                `{"text":"Invalid authorization","code":3}`,
		b.token:                            `{"text":"Invalid authorization","code":3}`,
		"Splunk " + b.token[:20]:           `{"text":"Invalid token","code":4}`,
		"Splunk 0-0-0-0":                   `{"text":"Invalid token","code":4}`,
		"Splunk " + unknown.Reveal():       `{"text":"Invalid token","code":4}`,
		"Basic " + basic("x:"+b.token+"x"): `{"text":"Invalid token","code":4}`,
	} {
		status := http.StatusUnauthorized
		switch {
		case want == hecOK:
			status = http.StatusOK
		case strings.Contains(want, `"code":4`):
			status = http.StatusForbidden
		}
		answer := b.ask(http.MethodPost, hecPath+"?token="+b.token, `{"event":"x"}`, "Authorization", authorization)
		checkHEC(t, answer, status, want)
	}
}

func TestBodyWithoutAValidEventIsAnsweredWithTheFirstBadEvent(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	for body, want := range map[string]string{
		"":                          `{"text":"No data","code":5}`,
		" \r\n":                     `{"text":"No data","code":5}`,
		"[]":                        `{"text":"No data","code":5}`,
		"no json":                   `{"text":"Invalid data format","code":6,"invalid-event-number":0}`,
		`{"event":"cut`:             `{"text":"Invalid data format","code":6,"invalid-event-number":0}`,
		`{"time":1}{"event":""}`:    `{"text":"Event field is required","code":12,"invalid-event-number":0}`,
		`{"event":null}`:            `{"text":"Event field is required","code":12,"invalid-event-number":0}`,
		`[{"event":""},{"time":1}]`: `{"text":"Event field cannot be blank","code":13,"invalid-event-number":0}`,
	} {
		checkHEC(t, b.splunk(hecPath, body), http.StatusBadRequest, want)
	}
	for _, path := range rawPaths {
		checkHEC(t, b.splunk(path, "\n \n"), http.StatusBadRequest, `{"text":"No data","code":5}`)
	}
	checkHEC(t, b.splunk(hecPath, "no gzip", "Content-Encoding", "gzip"), http.StatusBadRequest, `{"text":"Invalid data format","code":6}`)
	checkHEC(t, b.splunk(hecPath, "{}", "Content-Encoding", "br"), http.StatusUnsupportedMediaType, `{"text":"Invalid data format","code":6}`)
	checkHEC(t, b.splunk(hecPath, `{"event":"x"}`, "Idempotency-Key", strings.Repeat("k", maxIdempotencyKey+1)), http.StatusBadRequest, `{"text":"Invalid data format","code":6}`)
	if len(b.queued(t, "LOGS_0")) != 0 || len(b.dropped()) != 0 {
		t.Errorf("something was kept or counted: %v", b.dropped())
	}
}

func TestBadEventInABatchBecomesADeadLetter(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	large := `{"event":"` + strings.Repeat("x", 2<<20) + `"}`
	body := `{"event":"a"}{"event":""}{"event":"b"}{"time":1}{"event":01}` + large + `{"event":"c"}`
	checkHEC(t, b.splunk(hecPath, body), http.StatusOK, hecOK)
	if got := lines(t, b.queued(t, "LOGS_0")); fmt.Sprint(got) != "[a b c]" {
		t.Fatalf("on the queue: %q", got)
	}
	got := map[string]string{}
	for _, listed := range b.letters(t) {
		letter := asked(t, func() (stream.Letter, error) { return b.deadLetters.Letter(t.Context(), listed.ID) })
		got[letter.Reason] += string(letter.Data)
		if !strings.HasPrefix(letter.Detail, "project shop: event ") || strings.Contains(letter.Detail, b.token) || letter.Stream != "ingest" {
			t.Errorf("letter %+v", letter.DeadLetter)
		}
		if _, err := b.deadLetters.Replay(t.Context(), listed.ID); !errors.Is(err, stream.ErrNeverQueued) {
			t.Errorf("replay: %v", err)
		}
	}
	want := map[string]string{"invalid_field": `{"event":""}`, "missing_field": `{"time":1}`, "invalid_json": `{"event":01}`, "body_too_large": large[:maxDeadLetterBytes]}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("letters: %.300q", got)
	}
	counts := b.dropped()
	for reason := range want {
		if counts[reason].Records != 1 {
			t.Errorf("counted: %v", counts)
		}
	}
}

func TestBadEventsThatAreNotListedAreCounted(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	checkHEC(t, b.splunk(hecPath, `{"event":"good"}`+strings.Repeat(`{"event":""}`, 250)), http.StatusOK, hecOK)
	if counts := b.dropped(); counts["invalid_field"].Records != 250 {
		t.Errorf("counted: %v", counts)
	}
	if n := len(b.letters(t)); n != b.server.cfg.Limits.Rejections {
		t.Errorf("%d letters", n)
	}
}

func TestBatchIsAcceptedWhenADeadLetterCannotBeStored(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	b.server.deps.DeadLetter = func(context.Context, stream.DeadLetter) error { return stream.ErrUnavailable }
	checkHEC(t, b.splunk(hecPath, `{"event":"a"}{"event":""}`), http.StatusOK, hecOK)
	if counts := b.dropped(); counts["invalid_field"].Records != 1 {
		t.Errorf("counted: %v", counts)
	}
}

func TestRepeatedBodyWithTimesIsStoredOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	timed := fmt.Sprintf(`{"event":"timed","time":%d}{"event":"too"}`, b.server.deps.Now().Unix())
	if _, err := io.WriteString(w, timed); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		checkHEC(t, b.splunk(hecPath, timed), http.StatusOK, hecOK)
		checkHEC(t, b.splunk(hecPath, packed.String(), "Content-Encoding", "gzip"), http.StatusOK, hecOK)
		checkHEC(t, b.splunk(hecPath, `{"event":"heartbeat"}`), http.StatusOK, hecOK)
		checkHEC(t, b.splunk(rawPaths[0]+"?time=1767319445", "raw"), http.StatusOK, hecOK)
		checkHEC(t, b.splunk(hecPath, `{"event":"keyed"}`, "Idempotency-Key", "k"), http.StatusOK, hecOK)
	}
	got := lines(t, b.queued(t, "LOGS_0"))
	slices.Sort(got)
	if want := "[heartbeat heartbeat heartbeat keyed raw raw raw timed too]"; fmt.Sprint(got) != want {
		t.Errorf("on the queue: %q", got)
	}
	_, secret, err := b.tokens.CreateToken(t.Context(), "shop", "other")
	if err != nil {
		t.Fatal(err)
	}
	checkHEC(t, b.ask(http.MethodPost, hecPath, timed, "Authorization", "Splunk "+secret.Reveal()), http.StatusOK, hecOK)
	if again := lines(t, b.queued(t, "LOGS_0")); len(again) != len(got)+2 {
		t.Errorf("the same body of another token was taken for a repeat")
	}
}

func TestRepeatedBodyStoresEachDeadLetterOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	body := fmt.Sprintf(`{"event":"a","time":%d}{"event":""}`, b.server.deps.Now().Unix())
	for range 3 {
		checkHEC(t, b.splunk(hecPath, body), http.StatusOK, hecOK)
	}
	if n := len(b.letters(t)); n != 1 || b.dropped()["invalid_field"].Records != 1 {
		t.Errorf("%d letters, counted %v", n, b.dropped())
	}
}

func TestContainerLogsBeyondTheQuotaAreDroppedAndCounted(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	b.limit(t, func(s *project.Settings) { s.DailyRecords = number(2) })
	checkHEC(t, b.splunk(hecPath, strings.Repeat(`{"event":"taken"}`, 3)), http.StatusOK, hecOK)
	for range 2 {
		checkHEC(t, b.splunk(hecPath, strings.Repeat(`{"event":"dropped"}`, 5)), http.StatusOK, hecOK)
		checkHEC(t, b.splunk(rawPaths[0], "dropped\ndropped"), http.StatusOK, hecOK)
	}
	if got := lines(t, b.queued(t, "LOGS_0")); fmt.Sprint(got) != "[taken taken taken]" {
		t.Errorf("on the queue: %q", got)
	}
	if counts := b.dropped(); counts[string(quota.DailyRecords)].Records != 14 || counts[string(quota.DailyRecords)].Bytes == 0 {
		t.Errorf("counted: %v", counts)
	}
	checkHEC(t, b.splunk(hecPath, "no json"), http.StatusBadRequest, `{"text":"Invalid data format","code":6,"invalid-event-number":0}`)
}

func TestContainerLogsBeyondTheQuotaAreRefusedIfTheProjectSaysSo(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	b.limit(t, func(s *project.Settings) { s.DailyRecords = number(2); s.OnQuota = project.OnQuotaRefuse })
	checkHEC(t, b.splunk(hecPath, strings.Repeat(`{"event":"taken"}`, 3)), http.StatusOK, hecOK)
	for range 3 {
		checkHEC(t, b.splunk(hecPath, "not even read", "Content-Encoding", "gzip"), http.StatusServiceUnavailable, `{"text":"Server is busy","code":9}`)
	}
	if counts := b.dropped(); len(counts) != 0 {
		t.Errorf("what the sender keeps was counted as dropped: %v", counts)
	}
}

func TestProjectSetsTheSeverityOfStderr(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	b.limit(t, func(s *project.Settings) { s.StderrAs = "warn" })
	checkHEC(t, b.splunk(hecPath, `{"event":{"line":"x","source":"stderr"}}`), http.StatusOK, hecOK)
	var reader record.Reader
	reader.Reset(b.queued(t, "LOGS_0")[0].Data)
	section, err := reader.NextSection()
	if err != nil {
		t.Fatal(err)
	}
	var l record.Log
	if ok, err := section.NextLog(&l); !ok || err != nil || l.Severity != "warn" || l.SeverityNumber != 13 || l.Application != "web" {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestContainerLogsAreRefusedWhileTheQueueIsDown(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	b.health.Add("queue", b.topology.Healthy)
	health := func(want string, status int) {
		t.Helper()
		for _, path := range []string{"/services/collector/health", "/services/collector/health/1.0"} {
			answer := b.ask(http.MethodGet, path, "")
			for began := time.Now(); answer.Code != status && time.Since(began) < patience; {
				answer = b.ask(http.MethodGet, path, "") // the queue may have been too slow for a health check
			}
			checkHEC(t, answer, status, want)
		}
	}
	health(`{"text":"HEC is healthy","code":17}`, http.StatusOK)
	b.server.deps.DiskFull = func() error { return errors.New("the volume is 90 % full") }
	health(`{"text":"HEC is unhealthy, queues are full","code":18}`, http.StatusServiceUnavailable)
	checkHEC(t, b.splunk(hecPath, `{"event":"x"}`), http.StatusServiceUnavailable, `{"text":"Server is busy","code":9}`)
	b.server.deps.DiskFull = nil
	checkHEC(t, b.splunk(hecPath, `{"event":"x"}`), http.StatusOK, hecOK)
	if err := b.nats.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	health(`{"text":"HEC is unhealthy, queues are full","code":18}`, http.StatusServiceUnavailable)
	checkHEC(t, b.splunk(hecPath, `{"event":"x"}`), http.StatusServiceUnavailable, `{"text":"Server is busy","code":9}`)
	b.health.Drain()
	checkHEC(t, b.splunk(hecPath, `{"event":"x"}`), http.StatusServiceUnavailable, `{"text":"Server is shutting down","code":23}`)
}

func TestContainerBodyMayBeLargerThanTheNativeOne(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 256 << 20})
	native := b.server.cfg.Limits.Body
	line := `{"event":"` + strings.Repeat("x", 16<<10) + `"}`
	checkHEC(t, b.splunk(hecPath, strings.Repeat(line, 2*int(native)/len(line))), http.StatusOK, hecOK)
	b.server.cfg.ContainerBytes = 1 << 20
	b.server.budget.limit = newBudget(bodyWeight << 20).limit // no more than the largest body needs
	small := b.server.hec((*request).decodeHEC)
	b.server.route("/small", small)
	checkHEC(t, b.splunk("/small", strings.Repeat(line, 100)), http.StatusRequestEntityTooLarge, `{"text":"Invalid data format","code":6}`)
}

func TestOtherMethodsAndPathsOfContainerLogsAreNotFound(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	checkProblem(t, b.ask(http.MethodGet, hecPath, ""), http.StatusMethodNotAllowed, "method_not_allowed")
	checkProblem(t, b.ask(http.MethodPost, "/services/collector/health", ""), http.StatusMethodNotAllowed, "method_not_allowed")
	checkProblem(t, b.ask(http.MethodPost, "/services/collector/ack", ""), http.StatusNotFound, "not_found")
}

func TestEachHECCodeHasItsText(t *testing.T) {
	t.Parallel()
	for code, want := range map[hecCode]string{
		hecSuccess: "Success", hecInternal: "Internal server error", hecBusy: "Server is busy", hecDraining: "Server is shutting down",
	} {
		if got := string(code.append(nil)); got != fmt.Sprintf(`{"text":"%s","code":%d`, want, code) {
			t.Errorf("%s", got)
		}
	}
}
