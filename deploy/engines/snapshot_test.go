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

// snapshot is a stream as "nats stream backup" keeps it.
type snapshot struct {
	Config json.RawMessage `json:"config"`
	State  json.RawMessage `json:"state"`
	chunks [][]byte
}

// backUp asks for a stream as the command-line tool does. The server sends so
// many chunks and waits for the answers to them; one without content ends it.
func backUp(ctx context.Context, nc *nats.Conn, stream string) (snapshot, error) {
	inbox, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		return snapshot{}, err
	}
	defer func() { _ = inbox.Unsubscribe() }() // the connection is closed soon
	var taken snapshot
	if err := ask(ctx, nc, "$JS.API.STREAM.SNAPSHOT."+stream, map[string]string{"deliver_subject": inbox.Subject}, &taken); err != nil {
		return snapshot{}, err
	}
	for {
		m, err := inbox.NextMsgWithContext(ctx)
		if err != nil {
			return snapshot{}, err
		}
		if status := m.Header.Get("Status"); len(m.Data) == 0 && (status == "" || status == "204") {
			return taken, nil
		} else if len(m.Data) == 0 {
			return snapshot{}, fmt.Errorf("ended with %s %s", status, m.Header.Get("Description"))
		}
		taken.chunks = append(taken.chunks, m.Data)
		if m.Reply == "" { // the last one, which is shorter
			continue
		}
		if err := nc.Publish(m.Reply, nil); err != nil {
			return snapshot{}, err
		}
	}
}

// restore is what "nats stream restore" does.
func (s snapshot) restore(ctx context.Context, nc *nats.Conn, stream string) error {
	var to struct {
		Subject string `json:"deliver_subject"`
	}
	if err := ask(ctx, nc, "$JS.API.STREAM.RESTORE."+stream, s, &to); err != nil {
		return err
	}
	for _, chunk := range s.chunks {
		answer, err := nc.RequestWithContext(ctx, to.Subject, chunk)
		if err == nil && len(answer.Data) > 0 {
			err = refusal(answer.Data)
		}
		if err != nil {
			return err
		}
	}
	answer, err := nc.RequestWithContext(ctx, to.Subject, nil)
	if err != nil {
		return err
	}
	return refusal(answer.Data)
}

// ask sends a request of JetStream's and reads its answer.
func ask(ctx context.Context, nc *nats.Conn, subject string, request, into any) error {
	body, err := json.Marshal(request)
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

// refusal is the error of an answer that has one.
func refusal(answer []byte) error {
	var said struct {
		Error *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(answer, &said); err != nil || said.Error == nil {
		return err
	}
	return errors.New(said.Error.Description)
}

// documented are the streams that docs/operations.md backs up, in its order,
// and those that it leaves out.
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

// backUpAll backs up what the document says, and holds it to what there is.
func backUpAll(t *testing.T, s *site) map[string]snapshot {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	nc := s.operator(t)
	list, leftOut := documented(t)
	taken := map[string]snapshot{}
	for _, name := range list {
		var err error
		if taken[name], err = backUp(ctx, nc, name); err != nil {
			t.Fatalf("back up %s: %v", name, err)
		}
	}
	var there struct{ Streams []string }
	if err := ask(ctx, nc, "$JS.API.STREAM.NAMES", map[string]any{}, &there); err != nil {
		t.Fatal(err)
	}
	shard := regexp.MustCompile(`^(LOGS|EVENTS)_\d+$`)
	for _, name := range there.Streams {
		if _, ok := taken[name]; !ok && !slices.Contains(leftOut, shard.ReplaceAllString(name, "${1}_<shard>")) {
			t.Errorf("docs/operations.md does not say whether %s is to be backed up", name)
		}
	}
	return taken
}

func restoreAll(t *testing.T, s *site, streams map[string]snapshot) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	nc := s.operator(t)
	for name, taken := range streams {
		if err := taken.restore(ctx, nc, name); err != nil {
			t.Fatalf("restore %s: %v", name, err)
		}
	}
}
