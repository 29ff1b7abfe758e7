package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// The size of the load: large enough that each fault meets requests in progress,
// and small enough that each record can be read back.
const (
	senders       = 4
	recordsOfBody = 10
	bodyEvery     = 100 * time.Millisecond // for each sender
)

func sha256Hex(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// load sends bodies until it is stopped. It repeats each body, to another ingest
// with the same key, until it is accepted, so each may be stored only once.
type load struct {
	c       *cluster
	client  *http.Client
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	accepted []string // the text of every record that was accepted
	repeats  int      // of requests that were not answered with 202
}

func (c *cluster) startLoad() *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{c: c, cancel: cancel, client: &http.Client{Timeout: 5 * time.Second}}
	for sender := range senders {
		l.running.Go(func() { l.send(ctx, sender) })
	}
	c.t.Cleanup(l.stop)
	return l
}

// stop ends the load once each body in progress is accepted.
func (l *load) stop() {
	l.cancel()
	l.running.Wait()
	l.client.CloseIdleConnections()
}

func (l *load) send(ctx context.Context, sender int) {
	pace := time.NewTicker(bodyEvery)
	defer pace.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		if !l.deliver(sender, n) {
			l.c.t.Errorf("body %d of sender %d was not accepted within %s", n, sender, patience)
			return
		}
	}
}

// deliver sends one body until it is accepted.
func (l *load) deliver(sender, n int) bool {
	var body bytes.Buffer
	texts := make([]string, recordsOfBody)
	for i := range texts {
		texts[i] = fmt.Sprintf("record %d.%d.%d", sender, n, i)
		fmt.Fprintf(&body, "{\"data\":%q,\"application\":\"load\"}\n", texts[i])
	}
	for deadline, attempt := time.Now().Add(patience), sender; time.Now().Before(deadline); attempt++ {
		if l.post(attempt, fmt.Sprintf("%d.%d", sender, n), body.Bytes()) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.accepted = append(l.accepted, texts...)
			return true
		}
		l.mu.Lock()
		l.repeats++
		l.mu.Unlock()
		<-time.After(200 * time.Millisecond)
	}
	return false
}

// post sends to one ingest process; each attempt uses the next one.
func (l *load) post(attempt int, key string, body []byte) bool {
	all := l.c.of("ingest")
	if len(all) == 0 {
		return false
	}
	request, err := http.NewRequest(http.MethodPost, "http://"+all[attempt%len(all)].address("8080/tcp")+"/v1/logs/"+shop, bytes.NewReader(body))
	if err != nil {
		return false // it has no address now
	}
	request.Header.Set("Authorization", "Bearer "+l.c.token)
	request.Header.Set("Idempotency-Key", key)
	response, err := l.client.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err == nil && response.StatusCode == http.StatusAccepted
}

// total returns the number of records accepted so far.
func (l *load) total() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.accepted)
}

// line is a record as the API answers it.
type line struct {
	ID   string `json:"id"`
	Data string `json:"data"`
}

// page reads a page of logs from any admin.
func (c *cluster) page(query url.Values) (lines []line, next string, err error) {
	client := http.Client{Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	for _, b := range c.of("admin") {
		if lines, next, err = b.page(&client, query); err == nil {
			return lines, next, nil
		}
	}
	return nil, "", err
}

func (b *box) page(client *http.Client, query url.Values) (lines []line, next string, err error) {
	request, err := http.NewRequest(http.MethodGet, "http://"+b.address("8081/tcp")+"/api/v1/projects/"+shop+"/logs?"+query.Encode(), nil)
	if err != nil {
		return nil, "", err
	}
	request.Header.Set("Authorization", "Bearer "+apiKey)
	response, err := client.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	var answer struct {
		Logs []line `json:"logs"`
		Next string `json:"next"`
	}
	if response.StatusCode != http.StatusOK {
		return nil, "", fmt.Errorf("answer %d of %s", response.StatusCode, b.name)
	}
	err = json.NewDecoder(response.Body).Decode(&answer)
	return answer.Logs, answer.Next, err
}

// stored reads all records back.
func (c *cluster) stored() ([]line, error) {
	var all []line
	for query := (url.Values{"limit": {"1000"}}); ; {
		lines, next, err := c.page(query)
		if err != nil {
			return nil, err
		}
		all = append(all, lines...)
		if next == "" {
			return all, nil
		}
		query.Set("cursor", next)
	}
}

// flows waits until records sent from now on are accepted and readable: the system
// has recovered from the fault.
func (l *load) flows(t testing.TB, n int) {
	t.Helper()
	probe := fmt.Sprintf("probe %d", n)
	if !eventually(func() bool {
		return l.post(n, probe, fmt.Appendf(nil, `{"data":%q,"application":"probe"}`, probe))
	}) {
		t.Fatalf("nothing was accepted within %s", patience)
	}
	before := l.total()
	if !eventually(func() bool {
		lines, _, err := l.c.page(url.Values{"limit": {"1000"}, "q": {"application:probe"}})
		if err != nil {
			return false
		}
		for _, one := range lines {
			if one.Data == probe {
				return l.total() > before
			}
		}
		return false
	}) {
		t.Fatalf("accepted records were not readable within %s", patience)
	}
}

// eventually checks a condition until patience ends.
func eventually(ask func() bool) bool {
	for deadline := time.Now().Add(patience); ; {
		if ask() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		<-time.After(100 * time.Millisecond)
	}
}

// verdict is the difference between stored and accepted records.
type verdict struct {
	missing, doubled, strange int
}

// judge compares stored and accepted records. It ignores probes.
func judge(accepted []string, stored []line) verdict {
	times := map[string]int{}
	for _, one := range stored {
		if strings.HasPrefix(one.Data, "record ") {
			times[one.Data]++
		}
	}
	var v verdict
	for _, text := range accepted {
		if times[text] == 0 {
			v.missing++
			continue
		}
		v.doubled += times[text] - 1
		delete(times, text)
	}
	v.strange = len(times)
	return v
}

// finish stops the load and checks that each accepted record is stored exactly once
// and that nothing else is stored.
func (l *load) finish(t testing.TB) {
	t.Helper()
	l.stop()
	v := verdict{missing: len(l.accepted)}
	eventually(func() bool {
		all, err := l.c.stored()
		if err == nil {
			v = judge(l.accepted, all)
		}
		return err == nil && v.missing == 0
	})
	t.Logf("%d records accepted, %d requests repeated", len(l.accepted), l.repeats)
	if v != (verdict{}) || len(l.accepted) == 0 {
		t.Errorf("%d accepted records are not stored, %d are stored again, %d were never accepted", v.missing, v.doubled, v.strange)
	}
}

// judge must find differences, or every count would seem right.
func TestJudgeSeesLostDoubledAndStrangeRecords(t *testing.T) {
	accepted := []string{"record 1", "record 2", "record 3"}
	stored := func(texts ...string) (lines []line) {
		for _, text := range append(texts, "probe 1") {
			lines = append(lines, line{Data: text})
		}
		return lines
	}
	for _, c := range []struct {
		stored []line
		want   verdict
	}{
		{stored("record 3", "record 1", "record 2"), verdict{}},
		{stored("record 3", "record 1"), verdict{missing: 1}},
		{stored("record 3", "record 1", "record 2", "record 1", "record 1"), verdict{doubled: 2}},
		{stored("record 3", "record 1", "record 2", "record 4"), verdict{strange: 1}},
		{stored(), verdict{missing: 3}},
	} {
		if got := judge(accepted, c.stored); got != c.want {
			t.Errorf("%v is judged %+v, want %+v", c.stored, got, c.want)
		}
	}
}
