package engines

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

var users = []string{"admin", "ingest", "writer", "notifier"}

// queue runs a server with nats.conf over a folder of its own and is its
// address.
func queue(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	changes := []string{"port: 4222", "listen: \"127.0.0.1:-1\"", "http: 127.0.0.1:8222", "", "store_dir: /data", fmt.Sprintf("store_dir: %q", folder)}
	for _, user := range users {
		changes = append(changes, "$LOGBOOM_NATS_"+strings.ToUpper(user)+"_PASSWORD", secret)
	}
	file := filepath.Join(folder, "nats.conf")
	if err := os.WriteFile(file, []byte(strings.NewReplacer(changes...).Replace(read(t, "nats.conf"))), 0o600); err != nil {
		t.Fatal(err)
	}
	options, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !options.SyncAlways || options.MaxPayload != 8<<20 {
		t.Errorf("sync always is %v and the largest message %d, want true and 8 MB", options.SyncAlways, options.MaxPayload)
	}
	options.NoSigs, options.NoLog = true, true
	s, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(30 * time.Second) {
		t.Fatal("the server does not take connections")
	}
	return s.Addr().String()
}

// deeds are what a user may try, with those who may do it.
var deeds = []struct {
	what, subject string
	who           []string
}{
	{"put a log on the queue", "logs.0", []string{"admin", "ingest"}},
	{"put an event on the queue", "events.0.notify", []string{"admin", "ingest"}},
	{"bury a message", "dead.LOGS_0.poison", users},
	{"read logs", "$JS.API.CONSUMER.CREATE.LOGS_0.one", []string{"admin", "writer", "notifier"}},
	{"read events", "$JS.API.CONSUMER.CREATE.EVENTS_3.one", []string{"admin", "writer", "notifier"}},
	{"read one log", "$JS.API.STREAM.MSG.GET.LOGS_0", []string{"admin"}},
	{"read dead letters", "$JS.API.STREAM.MSG.GET.DEAD", []string{"admin"}},
	{"purge what is stored", "$JS.API.STREAM.PURGE.LOGS_0", []string{"admin", "writer"}},
	{"purge dead letters", "$JS.API.STREAM.PURGE.DEAD", []string{"admin"}},
	{"delete a stream", "$JS.API.STREAM.DELETE.NONE", []string{"admin"}},
	{"make a stream", "$JS.API.STREAM.CREATE.NONE", []string{"admin"}},
	{"change a stream", "$JS.API.STREAM.UPDATE.LOGS_0", []string{"admin"}},
	{"copy a stream", "$JS.API.STREAM.SNAPSHOT.KV_USERS", []string{"admin"}},
	{"move a writer's place", "$KV.LEDGER.w.LOGS_0", []string{"admin", "writer"}},
	{"move a notifier's place", "$KV.LEDGER.n.EVENTS_0", []string{"admin", "writer", "notifier"}},
	{"read a token", "$JS.API.STREAM.MSG.GET.KV_PROJECTS", []string{"admin", "ingest", "notifier"}},
	{"make a token", "$KV.PROJECTS.token.one", []string{"admin"}},
	{"note a token's use", "$KV.USES.used.one", []string{"admin", "ingest"}},
	{"read a user", "$JS.API.STREAM.MSG.GET.KV_USERS", []string{"admin"}},
	{"watch users", "$JS.API.CONSUMER.CREATE.KV_USERS.one.$KV.USERS.>", []string{"admin"}},
	{"make a user", "$KV.USERS.user.one", []string{"admin"}},
	{"read an alert's address", "$JS.API.STREAM.MSG.GET.KV_ALERTS", []string{"admin", "notifier"}},
	{"change an alert's address", "$KV.ALERTS.alerts.one", []string{"admin"}},
	{"send an alert", "notify.0.one", []string{"admin", "notifier"}},
	{"ask the server itself", "$SYS.REQ.SERVER.PING", nil},
}

func TestEachUserOfNATSMayDoItsWorkAndNothingElse(t *testing.T) {
	t.Parallel()
	address := queue(t)
	for _, user := range users {
		for _, deed := range deeds {
			err := attempt(t, address, user, func(nc *nats.Conn) error { return nc.Publish(deed.subject, nil) })
			if may := slices.Contains(deed.who, user); may != (err == nil) {
				t.Errorf("%s tries to %s: %v", user, deed.what, err)
			}
		}
		for _, subject := range []string{">", "logs.>", "$KV.>", "$JS.>", "_INBOX_other.>"} {
			err := attempt(t, address, user, func(nc *nats.Conn) error { _, err := nc.SubscribeSync(subject); return err })
			if err == nil {
				t.Errorf("%s may listen to %s", user, subject)
			}
		}
	}
}

// attempt connects as a user, does something and is the server's refusal.
func attempt(t *testing.T, address, user string, do func(*nats.Conn) error) error {
	t.Helper()
	nc, err := nats.Connect("nats://"+address, nats.UserInfo(user, secret), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatalf("connect as %s: %v", user, err)
	}
	defer nc.Close()
	if err := do(nc); err != nil {
		return err
	}
	if err := nc.FlushTimeout(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	return nc.LastError()
}

func TestNATSRefusesWhoHasNoPassword(t *testing.T) {
	t.Parallel()
	address := queue(t)
	for _, options := range [][]nats.Option{nil, {nats.UserInfo("admin", "guess")}, {nats.UserInfo("nobody", secret)}} {
		nc, err := nats.Connect("nats://"+address, options...)
		if err == nil {
			nc.Close()
		}
		if !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("got %v", err)
		}
	}
}
