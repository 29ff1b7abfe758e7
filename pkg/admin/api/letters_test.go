package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/admin/admintest"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/people"
	"github.com/logboom/logboom/pkg/stream"
)

// queue opens the streams. The ledger has committed messages 1 to 9 of LOGS_0.
func (b *bench) queue(t *testing.T) *stream.Topology {
	t.Helper()
	topology, err := stream.Open(admintest.Context(t), b.Queue, stream.Config{Shards: 1, MaxBytes: 8 << 20, DeadMaxBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	key := ledger.WriterKey("LOGS_0")
	again(t, func() error {
		positions, err := ledger.Open(admintest.Context(t), b.Queue, 1, nil)
		if err != nil {
			return err
		}
		position, err := positions.TakeOver(admintest.Context(t), key)
		if err != nil {
			return err
		}
		_, err = positions.Commit(admintest.Context(t), key, position, 9, time.Time{})
		return err
	})
	return topology
}

// again retries what failed because the queue was late, whose own timeouts are
// of seconds.
func again(t *testing.T, try func() error) {
	t.Helper()
	err := try()
	for deadline := time.Now().Add(admintest.Timeout); errors.Is(err, context.DeadlineExceeded) && time.Now().Before(deadline); {
		err = try()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// messages returns how many messages a stream has.
func messages(t *testing.T, topology *stream.Topology, name string) uint64 {
	t.Helper()
	var info stream.Info
	again(t, func() (err error) { info, err = topology.Info(admintest.Context(t), name); return err })
	return info.Messages
}

func addDeadLetter(t *testing.T, topology *stream.Topology, seq uint64) {
	t.Helper()
	err := topology.PublishDeadLetter(admintest.Context(t), stream.DeadLetter{
		Reason: "poison", Stream: "LOGS_0", Seq: seq, Time: time.Now(), Data: []byte("a payload"), Detail: "code 27",
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDeadLettersAreListedByPageWithoutTheirContent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s, topology := b.server(), b.queue(t)
	const path = "/api/v1/dead-letters"
	if empty := b.do(t, s, http.MethodGet, path, ""); strings.TrimSpace(empty.Body.String()) != `{"dead_letters":[],"next":""}` {
		t.Errorf("without letters: %s", empty.Body)
	}
	for seq := range uint64(3) {
		addDeadLetter(t, topology, seq+4)
	}
	answer := b.do(t, s, http.MethodGet, path+"?limit=2", "")
	first := decoded[deadLetterPage](t, answer)
	if strings.Contains(answer.Body.String(), "payload") {
		t.Errorf("the answer shows the content of a letter: %s", answer.Body)
	}
	if len(first.DeadLetters) != 2 || first.Next != "2" {
		t.Fatalf("the first page is %+v", first)
	}
	if l := first.DeadLetters[1]; l.ID != "2" || l.Reason != "poison" || l.Stream != "LOGS_0" || l.Seq != 5 || l.Bytes != 9 || l.Detail != "code 27" {
		t.Errorf("the second letter is %+v", l)
	}
	last := decoded[deadLetterPage](t, b.do(t, s, http.MethodGet, path+"?limit=2&cursor="+first.Next, ""))
	if len(last.DeadLetters) != 1 || last.DeadLetters[0].ID != "3" || last.Next != "" {
		t.Errorf("the last page is %+v", last)
	}
	for _, query := range []string{"?cursor=-1", "?cursor=x", "?cursor=99999999999999999999", "?limit=0", "?limit=1001"} {
		if answer := b.do(t, s, http.MethodGet, path+query, ""); answer.Code != http.StatusBadRequest {
			t.Errorf("%s: answer %d: %s", query, answer.Code, answer.Body)
		}
	}
}

func TestReplayedDeadLetterIsOnItsStreamAndInTheAuditTrail(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s, topology := b.server(), b.queue(t)
	addDeadLetter(t, topology, 5)
	const path = "/api/v1/dead-letters/1/replay"
	if got := decoded[replayedLetter](t, b.do(t, s, http.MethodPost, path, "")); got != (replayedLetter{"1", "replayed"}) {
		t.Errorf("answer %+v", got)
	}
	if n := messages(t, topology, "LOGS_0"); n != 1 {
		t.Errorf("%d messages on the stream, want 1", n)
	}
	if !strings.Contains(b.Log.String(), `"action":"dead_letter.replayed"`) || !strings.Contains(b.Log.String(), `"target":"1"`) {
		t.Errorf("the audit trail has no entry: %s", b.Log.String())
	}
	if again := b.do(t, s, http.MethodPost, path, ""); again.Code != http.StatusNotFound {
		t.Errorf("a second time: answer %d: %s", again.Code, again.Body)
	}
}

func TestRefusedReplayKeepsTheDeadLetterAndSaysWhy(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s, topology := b.server(), b.queue(t)
	addDeadLetter(t, topology, 0)
	addDeadLetter(t, topology, 10)
	for id, want := range map[string]struct {
		status int
		code   string
	}{
		"1":                    {http.StatusConflict, "not_replayable"},
		"2":                    {http.StatusConflict, "not_settled"},
		"3":                    {http.StatusNotFound, "not_found"},
		"0":                    {http.StatusNotFound, "not_found"},
		"x":                    {http.StatusNotFound, "not_found"},
		"99999999999999999999": {http.StatusNotFound, "not_found"},
	} {
		answer := b.do(t, s, http.MethodPost, "/api/v1/dead-letters/"+id+"/replay", "")
		if got := decoded[refusal](t, answer); answer.Code != want.status || got.Code != want.code {
			t.Errorf("%s: answer %d: %s", id, answer.Code, answer.Body)
		}
	}
	if n := messages(t, topology, stream.DeadStream); n != 2 {
		t.Errorf("%d letters are left, want 2", n)
	}
	if strings.Contains(b.Log.String(), "dead_letter.replayed") {
		t.Error("the audit trail has a replay that did not happen")
	}
}

func TestDeadLettersRequireAKeyOfAllProjects(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s, topology := b.server(), b.queue(t)
	b.Project(t, "shop")
	addDeadLetter(t, topology, 5)
	for _, key := range []string{b.apiKey(t, people.RoleMember), b.apiKey(t, people.RoleAdmin, "shop")} {
		for method, path := range map[string]string{http.MethodGet: "", http.MethodPost: "/1/replay"} {
			if answer := send(s, method, "/api/v1/dead-letters"+path, key, ""); answer.Code != http.StatusForbidden {
				t.Errorf("%s %s: answer %d: %s", method, path, answer.Code, answer.Body)
			}
		}
	}
}

func TestReplayIsInTheAuditTrailEvenIfTheDeadLetterCannotBeRemoved(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s, topology := b.server(), b.queue(t)
	addDeadLetter(t, topology, 5)
	dead, err := b.Queue.Stream(admintest.Context(t), stream.DeadStream)
	if err != nil {
		t.Fatal(err)
	}
	cfg := dead.CachedInfo().Config
	cfg.DenyDelete = true
	if _, err := b.Queue.UpdateStream(admintest.Context(t), cfg); err != nil {
		t.Fatal(err)
	}
	answer := b.do(t, s, http.MethodPost, "/api/v1/dead-letters/1/replay", "")
	if got := decoded[refusal](t, answer); answer.Code != http.StatusServiceUnavailable || got.Code != "not_removed" {
		t.Errorf("answer %d: %s", answer.Code, answer.Body)
	}
	if !strings.Contains(b.Log.String(), `"action":"dead_letter.replayed"`) {
		t.Error("the audit trail has no entry")
	}
}
