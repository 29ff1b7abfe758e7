package stream_test

import (
	"strings"
	"testing"

	"github.com/logboom/logboom/pkg/stream"
)

func TestEachProcessHasAnInboxOfItsOwn(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	for name, want := range map[string]string{
		"ingest": "_INBOX.ingest.", "admin migrate": "_INBOX.admin.", "admin": "_INBOX.admin.",
		"": "_INBOX.", "a.b": "_INBOX.", "x>": "_INBOX.",
	} {
		nc, js, err := stream.Connect(q.Ctx(), q.Server.URL(), stream.ConnectConfig{Name: name})
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		inbox := nc.NewInbox()
		if rest, found := strings.CutPrefix(inbox, want); !found || strings.Contains(rest, ".") {
			t.Errorf("%q has the inbox %s, want one of %s", name, inbox, want)
		}
		if _, err := js.AccountInfo(q.Ctx()); err != nil {
			t.Errorf("%q gets no answers: %v", name, err)
		}
		nc.Close()
	}
}
