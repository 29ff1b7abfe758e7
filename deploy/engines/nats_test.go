package engines

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

var users = []string{"admin", "ingest", "writer", "notifier"}

// queue runs a server with nats.conf over a folder of its own and is its
// address.
func queue(t *testing.T) string {
	t.Helper()
	return watched(t, &refusals{})
}

// watched is a queue that notes whom it refuses what.
func watched(t *testing.T, log *refusals) string {
	t.Helper()
	options := settings(t)
	if !options.SyncAlways || options.MaxPayload != 8<<20 {
		t.Errorf("sync always is %v and the largest message %d, want true and 8 MB", options.SyncAlways, options.MaxPayload)
	}
	s, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	s.SetLoggerV2(log, false, false, false)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(patience) {
		t.Fatal("the server does not take connections")
	}
	return s.Addr().String()
}

// settings are those of nats.conf, on a free port and with a folder of the test.
func settings(t *testing.T) *server.Options {
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
	options.NoSigs = true
	options.AuthTimeout = patience.Seconds() // of who has connected, on a busy machine
	return options
}

// refusals is a log of the server that keeps what it refused to clients.
type refusals struct {
	mu    sync.Mutex
	lines []string
}

// Errorf is how the server tells of it.
func (r *refusals) Errorf(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if !strings.Contains(line, "Violation") {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
}

func (*refusals) Noticef(string, ...any) {}
func (*refusals) Warnf(string, ...any)   {}
func (*refusals) Fatalf(string, ...any)  {}
func (*refusals) Debugf(string, ...any)  {}
func (*refusals) Tracef(string, ...any)  {}

// check fails the test for each thing that was refused, once.
func (r *refusals) check(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	told := map[string]bool{}
	for _, line := range r.lines {
		_, what, _ := strings.Cut(line, "Violation")
		if !told[what] {
			t.Errorf("the queue refused: %s", line)
		}
		told[what] = true
	}
}

// deeds are what a user may try, with those who may do it.
var deeds = []struct {
	what, subject string
	who           []string
}{
	{"put a log on the queue", "logs.0", []string{"admin", "ingest"}},
	{"put an event on the queue", "events.0.notify", []string{"admin", "ingest"}},
	{"bury an entry that was no record", "dead.ingest.invalid_json", []string{"ingest"}},
	{"bury a message", "dead.LOGS_0.poison.1", []string{"writer"}},
	{"bury an alert", "dead.NOTIFY.rejected.1", []string{"notifier"}},
	{"read logs", "$JS.API.CONSUMER.CREATE.LOGS_0.one", []string{"admin", "writer", "notifier"}},
	{"read logs by another way", "$JS.API.CONSUMER.DURABLE.CREATE.LOGS_0.one", []string{"admin"}},
	{"read on with another's consumer of logs", "$JS.API.CONSUMER.MSG.NEXT.LOGS_0.one", []string{"admin", "writer", "notifier"}},
	{"read events", "$JS.API.CONSUMER.CREATE.EVENTS_3.one", []string{"admin", "writer", "notifier"}},
	{"read one log", "$JS.API.STREAM.MSG.GET.LOGS_0", []string{"admin"}},
	{"read one log of a replica", "$JS.API.DIRECT.GET.LOGS_0", []string{"admin", "writer"}},
	{"read dead letters", "$JS.API.STREAM.MSG.GET.DEAD", []string{"admin"}},
	{"list dead letters", "$JS.API.CONSUMER.CREATE.DEAD.one", []string{"admin"}},
	{"remove a dead letter", "$JS.API.STREAM.MSG.DELETE.DEAD", []string{"admin"}},
	{"purge what is stored", "$JS.API.STREAM.PURGE.LOGS_0", []string{"admin", "writer"}},
	{"purge dead letters", "$JS.API.STREAM.PURGE.DEAD", []string{"admin"}},
	{"purge projects", "$JS.API.STREAM.PURGE.KV_PROJECTS", []string{"admin"}},
	{"delete a stream", "$JS.API.STREAM.DELETE.NONE", []string{"admin"}},
	{"make a stream", "$JS.API.STREAM.CREATE.NONE", []string{"admin"}},
	{"change a stream", "$JS.API.STREAM.UPDATE.LOGS_0", []string{"admin"}},
	{"list streams", "$JS.API.STREAM.LIST", []string{"admin"}},
	{"copy a stream", "$JS.API.STREAM.SNAPSHOT.KV_USERS", []string{"admin"}},
	{"send the parts of a copy", "$JS.SNAPSHOT.RESTORE.KV_USERS.one", []string{"admin"}},
	{"bring a stream back", "$JS.API.STREAM.RESTORE.KV_USERS", []string{"admin"}},
	{"depose a leader", "$JS.API.STREAM.LEADER.STEPDOWN.LOGS_0", []string{"admin"}},
	{"move a writer's place", "$KV.LEDGER.w.LOGS_0", []string{"admin", "writer"}},
	{"take a writer's lease", "$KV.LEDGER.l.claim.LOGS_0", []string{"admin", "writer"}},
	{"move a notifier's place", "$KV.LEDGER.n.EVENTS_0", []string{"admin", "notifier"}},
	{"read the ledger", "$JS.API.STREAM.MSG.GET.KV_LEDGER", []string{"admin", "writer", "notifier"}},
	{"read the ledger of a replica", "$JS.API.DIRECT.GET.KV_LEDGER.$KV.LEDGER.w.LOGS_0", []string{"admin"}},
	{"take a notifier's lease", "$KV.NOTIFIER.lease.0", []string{"admin", "notifier"}},
	{"tell that it runs", "$KV.PROCESSES.one", users},
	{"see who runs", "$JS.API.CONSUMER.CREATE.KV_PROCESSES.one", []string{"admin"}},
	{"read a token", "$JS.API.STREAM.MSG.GET.KV_PROJECTS", []string{"admin", "ingest", "notifier"}},
	{"make a token", "$KV.PROJECTS.token.one", []string{"admin"}},
	{"note a token's use", "$KV.USES.used.one", []string{"admin", "ingest"}},
	{"read a user", "$JS.API.STREAM.MSG.GET.KV_USERS", []string{"admin"}},
	{"read a user of a replica", "$JS.API.DIRECT.GET.KV_USERS.$KV.USERS.user.one", []string{"admin"}},
	{"watch users", "$JS.API.CONSUMER.CREATE.KV_USERS.one.$KV.USERS.>", []string{"admin"}},
	{"make a user", "$KV.USERS.user.one", []string{"admin"}},
	{"read a session", "$JS.API.STREAM.MSG.GET.KV_SESSIONS", []string{"admin"}},
	{"name the sessions", "$JS.API.STREAM.INFO.KV_SESSIONS", []string{"admin"}},
	{"make a session", "$KV.SESSIONS.one", []string{"admin"}},
	{"name whom a project has", "$JS.API.STREAM.INFO.KV_MEMBERS", []string{"admin"}},
	{"let somebody into a project", "$KV.MEMBERS.one", []string{"admin"}},
	{"read what somebody saved", "$JS.API.DIRECT.GET.KV_SAVED_VIEWS.$KV.SAVED_VIEWS.one", []string{"admin"}},
	{"read the audit trail", "$JS.API.STREAM.MSG.GET.AUDIT", []string{"admin"}},
	{"write the audit trail", "audit", []string{"admin"}},
	{"bury a project", "$KV.GRAVES.one", []string{"admin"}},
	{"read an alert's address", "$JS.API.STREAM.MSG.GET.KV_ALERTS", []string{"admin", "notifier"}},
	{"change an alert's address", "$KV.ALERTS.alerts.one", []string{"admin"}},
	{"send an alert", "notify.0.one", []string{"admin", "notifier"}},
	{"read waiting alerts", "$JS.API.CONSUMER.CREATE.NOTIFY.one", []string{"admin", "notifier"}},
	{"tell what became of an alert", "notified.0", []string{"notifier"}},
	{"answer in another's place", "_INBOX.other.one", nil},
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
	}
}

func TestEachUserOfNATSHearsItsOwnAnswersOnly(t *testing.T) {
	t.Parallel()
	address := queue(t)
	for _, user := range users {
		subjects := []string{">", "logs.>", "$KV.>", "$JS.>", "_INBOX.>", "_INBOX.*", "_INBOX.*.>", "_INBOX_other.>"}
		for _, owner := range users {
			subjects = append(subjects, "_INBOX."+owner+".>", "_INBOX."+owner+".one.*")
		}
		for _, subject := range subjects {
			err := attempt(t, address, user, func(nc *nats.Conn) error { _, err := nc.SubscribeSync(subject); return err })
			if own := strings.HasPrefix(subject, "_INBOX."+user+"."); own != (err == nil) {
				t.Errorf("%s listens to %s: %v", user, subject, err)
			}
		}
	}
}

// attempt connects as a user, does something and is the server's refusal.
func attempt(t *testing.T, address, user string, do func(*nats.Conn) error) error {
	t.Helper()
	nc, err := nats.Connect("nats://"+address, nats.Timeout(patience), nats.UserInfo(user, secret), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatalf("connect as %s: %v", user, err)
	}
	defer nc.Close()
	if err := do(nc); err != nil {
		return err
	}
	if err := nc.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
	return nc.LastError()
}

func TestNATSRefusesWhoHasNoPassword(t *testing.T) {
	t.Parallel()
	address := queue(t)
	for _, options := range [][]nats.Option{nil, {nats.UserInfo("admin", "guess")}, {nats.UserInfo("nobody", secret)}} {
		nc, err := nats.Connect("nats://"+address, append(options, nats.Timeout(patience))...)
		if err == nil {
			nc.Close()
		}
		if !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("got %v", err)
		}
	}
}
