package engines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// snapshot is the backup of a stream, as "nats stream backup" stores it.
type snapshot struct {
	Config json.RawMessage `json:"config"`
	State  json.RawMessage `json:"state"`
	chunks [][]byte
}

// backUp backs up a stream as the nats command-line tool does. The server sends
// chunks and waits for an acknowledgement of each. A chunk without content ends
// the backup.
func backUp(ctx context.Context, nc *nats.Conn, stream string) (snapshot, error) {
	inbox, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		return snapshot{}, err
	}
	defer func() { _ = inbox.Unsubscribe() }() // the connection is closed soon anyway
	var backup snapshot
	if err := request(ctx, nc, "$JS.API.STREAM.SNAPSHOT."+stream, map[string]string{"deliver_subject": inbox.Subject}, &backup); err != nil {
		return snapshot{}, err
	}
	for {
		m, err := inbox.NextMsgWithContext(ctx)
		if err != nil {
			return snapshot{}, err
		}
		if status := m.Header.Get("Status"); len(m.Data) == 0 && (status == "" || status == "204") {
			return backup, nil
		} else if len(m.Data) == 0 {
			return snapshot{}, fmt.Errorf("the backup ended with status %s: %s", status, m.Header.Get("Description"))
		}
		backup.chunks = append(backup.chunks, m.Data)
		if m.Reply == "" { // the server wants no acknowledgement of the last chunk, which is shorter
			continue
		}
		if err := nc.Publish(m.Reply, nil); err != nil {
			return snapshot{}, err
		}
	}
}

// restore restores a stream as "nats stream restore" does.
func (s snapshot) restore(ctx context.Context, nc *nats.Conn, stream string) error {
	var target struct {
		Subject string `json:"deliver_subject"`
	}
	if err := request(ctx, nc, "$JS.API.STREAM.RESTORE."+stream, s, &target); err != nil {
		return err
	}
	for _, chunk := range s.chunks {
		answer, err := nc.RequestWithContext(ctx, target.Subject, chunk)
		if err == nil && len(answer.Data) > 0 {
			err = refusal(answer.Data)
		}
		if err != nil {
			return err
		}
	}
	answer, err := nc.RequestWithContext(ctx, target.Subject, nil)
	if err != nil {
		return err
	}
	return refusal(answer.Data)
}

// request sends a request to JetStream's API and decodes the answer into a
// value.
func request(ctx context.Context, nc *nats.Conn, subject string, content, into any) error {
	body, err := json.Marshal(content)
	if err != nil {
		return err
	}
	answer, err := nc.RequestWithContext(ctx, subject, body)
	if err == nil {
		err = refusal(answer.Data)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", subject, err)
	}
	return json.Unmarshal(answer.Data, into)
}

// refusal returns the error that an answer of JetStream's API contains, or nil.
func refusal(answer []byte) error {
	var parsed struct {
		Error *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(answer, &parsed); err != nil || parsed.Error == nil {
		return err
	}
	return errors.New(parsed.Error.Description)
}

// documented returns the streams that docs/operations.md backs up, in that
// order, and the streams that it leaves out.
func documented(t *testing.T) (backedUp, leftOut []string) {
	t.Helper()
	text := read(t, filepath.Join("..", "..", "docs", "operations.md"))
	list := regexp.MustCompile(`for stream in ([A-Z_ ]+); do nats .*stream backup`).FindStringSubmatch(text)
	if list == nil {
		t.Fatal("docs/operations.md has no list of streams to back up")
	}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[A-Z`, _<>shard]+`) \\|").FindAllStringSubmatch(text, -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			leftOut = append(leftOut, strings.Trim(name, "`"))
		}
	}
	return strings.Fields(list[1]), leftOut
}

// backUpAll backs up the streams that docs/operations.md names, and checks that
// the document mentions every stream of the queue.
func backUpAll(t *testing.T, s *site) map[string]snapshot {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	nc := s.operator(t)
	list, leftOut := documented(t)
	backups := map[string]snapshot{}
	for _, name := range list {
		var err error
		if backups[name], err = backUp(ctx, nc, name); err != nil {
			t.Fatalf("back up %s: %v", name, err)
		}
	}
	var existing struct{ Streams []string }
	if err := request(ctx, nc, "$JS.API.STREAM.NAMES", map[string]any{}, &existing); err != nil {
		t.Fatal(err)
	}
	shard := regexp.MustCompile(`^(LOGS|EVENTS)_\d+$`)
	for _, name := range existing.Streams {
		if _, ok := backups[name]; !ok && !slices.Contains(leftOut, shard.ReplaceAllString(name, "${1}_<shard>")) {
			t.Errorf("docs/operations.md does not say whether to back up %s", name)
		}
	}
	return backups
}

func restoreAll(t *testing.T, s *site, streams map[string]snapshot) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	nc := s.operator(t)
	for name, backup := range streams {
		if err := backup.restore(ctx, nc, name); err != nil {
			t.Fatalf("restore %s: %v", name, err)
		}
	}
}
