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

// queue runs a NATS server with nats.conf and its own folder, and returns its
// address.
func queue(t *testing.T) string {
	t.Helper()
	return queueWithLog(t, &refusals{})
}

// queueWithLog is like queue, but collects in log what the server refuses.
func queueWithLog(t *testing.T, log *refusals) string {
	t.Helper()
	options := settings(t)
	if !options.SyncAlways || options.MaxPayload != 8<<20 {
		t.Errorf("sync_always is %v and max_payload %d, want true and 8 MiB", options.SyncAlways, options.MaxPayload)
	}
	s, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	s.SetLoggerV2(log, false, false, false)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(patience) {
		t.Fatal("the server does not accept connections")
	}
	return s.Addr().String()
}

// settings returns the options in nats.conf, with a free port and a folder of
// the test.
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
	options.AuthTimeout = patience.Seconds() // a busy machine is slow to authenticate a client
	return options
}

// refusals is a server log that keeps only the requests that were refused.
type refusals struct {
	mu    sync.Mutex
	lines []string
}

// Errorf keeps the line if it reports a permissions violation.
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

// check fails the test once for each kind of refused request.
func (r *refusals) check(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	reported := map[string]bool{}
	for _, line := range r.lines {
		_, request, _ := strings.Cut(line, "Violation")
		if !reported[request] {
			t.Errorf("the queue refused: %s", line)
		}
		reported[request] = true
	}
}

// actions lists what a user may try, and which users may do it.
var actions = []struct {
	name, subject string
	allowed       []string
}{
	{"publish a log", "logs.0", []string{"admin", "ingest"}},
	{"publish an event", "events.0.notify", []string{"admin", "ingest"}},
	{"dead-letter an invalid entry", "dead.ingest.invalid_json", []string{"ingest"}},
	{"dead-letter a message", "dead.LOGS_0.poison.1", []string{"writer"}},
	{"dead-letter an alert", "dead.NOTIFY.rejected.1", []string{"notifier"}},
	{"read logs", "$JS.API.CONSUMER.CREATE.LOGS_0.one", []string{"admin", "writer", "notifier"}},
	{"read logs with a durable consumer", "$JS.API.CONSUMER.DURABLE.CREATE.LOGS_0.one", []string{"admin"}},
	{"read logs with an existing consumer", "$JS.API.CONSUMER.MSG.NEXT.LOGS_0.one", []string{"admin", "writer", "notifier"}},
	{"read events", "$JS.API.CONSUMER.CREATE.EVENTS_3.one", []string{"admin", "writer", "notifier"}},
	{"read one log", "$JS.API.STREAM.MSG.GET.LOGS_0", []string{"admin"}},
	{"read one log from a replica", "$JS.API.DIRECT.GET.LOGS_0", []string{"admin", "writer"}},
	{"read dead letters", "$JS.API.STREAM.MSG.GET.DEAD", []string{"admin"}},
	{"list dead letters", "$JS.API.CONSUMER.CREATE.DEAD.one", []string{"admin"}},
	{"remove a dead letter", "$JS.API.STREAM.MSG.DELETE.DEAD", []string{"admin"}},
	{"purge stored messages", "$JS.API.STREAM.PURGE.LOGS_0", []string{"admin", "writer"}},
	{"purge dead letters", "$JS.API.STREAM.PURGE.DEAD", []string{"admin"}},
	{"purge projects", "$JS.API.STREAM.PURGE.KV_PROJECTS", []string{"admin"}},
	{"delete a stream", "$JS.API.STREAM.DELETE.NONE", []string{"admin"}},
	{"create a stream", "$JS.API.STREAM.CREATE.NONE", []string{"admin"}},
	{"change a stream", "$JS.API.STREAM.UPDATE.LOGS_0", []string{"admin"}},
	{"list streams", "$JS.API.STREAM.LIST", []string{"admin"}},
	{"back up a stream", "$JS.API.STREAM.SNAPSHOT.KV_USERS", []string{"admin"}},
	{"send the parts of a backup", "$JS.SNAPSHOT.RESTORE.KV_USERS.one", []string{"admin"}},
	{"restore a stream", "$JS.API.STREAM.RESTORE.KV_USERS", []string{"admin"}},
	{"make a leader step down", "$JS.API.STREAM.LEADER.STEPDOWN.LOGS_0", []string{"admin"}},
	{"change a writer's position", "$KV.LEDGER.w.LOGS_0", []string{"admin", "writer"}},
	{"acquire a writer's lease", "$KV.LEDGER.l.claim.LOGS_0", []string{"admin", "writer"}},
	{"change a notifier's position", "$KV.LEDGER.n.EVENTS_0", []string{"admin", "notifier"}},
	{"read the ledger", "$JS.API.STREAM.MSG.GET.KV_LEDGER", []string{"admin", "writer", "notifier"}},
	{"read the ledger from a replica", "$JS.API.DIRECT.GET.KV_LEDGER.$KV.LEDGER.w.LOGS_0", []string{"admin"}},
	{"acquire a notifier's lease", "$KV.NOTIFIER.lease.0", []string{"admin", "notifier"}},
	{"publish its presence", "$KV.PROCESSES.one", users},
	{"list the running processes", "$JS.API.CONSUMER.CREATE.KV_PROCESSES.one", []string{"admin"}},
	{"read a token", "$JS.API.STREAM.MSG.GET.KV_PROJECTS", []string{"admin", "ingest", "notifier"}},
	{"create a token", "$KV.PROJECTS.token.one", []string{"admin"}},
	{"record a token's use", "$KV.USES.used.one", []string{"admin", "ingest"}},
	{"read a user", "$JS.API.STREAM.MSG.GET.KV_USERS", []string{"admin"}},
	{"read a user from a replica", "$JS.API.DIRECT.GET.KV_USERS.$KV.USERS.user.one", []string{"admin"}},
	{"watch users", "$JS.API.CONSUMER.CREATE.KV_USERS.one.$KV.USERS.>", []string{"admin"}},
	{"create a user", "$KV.USERS.user.one", []string{"admin"}},
	{"read a session", "$JS.API.STREAM.MSG.GET.KV_SESSIONS", []string{"admin"}},
	{"list the sessions", "$JS.API.STREAM.INFO.KV_SESSIONS", []string{"admin"}},
	{"create a session", "$KV.SESSIONS.one", []string{"admin"}},
	{"list a project's members", "$JS.API.STREAM.INFO.KV_MEMBERS", []string{"admin"}},
	{"add a member to a project", "$KV.MEMBERS.one", []string{"admin"}},
	{"read a saved view", "$JS.API.DIRECT.GET.KV_SAVED_VIEWS.$KV.SAVED_VIEWS.one", []string{"admin"}},
	{"read the audit trail", "$JS.API.STREAM.MSG.GET.AUDIT", []string{"admin"}},
	{"write the audit trail", "audit", []string{"admin"}},
	{"mark a project as deleted", "$KV.GRAVES.one", []string{"admin"}},
	{"read an alert's address", "$JS.API.STREAM.MSG.GET.KV_ALERTS", []string{"admin", "notifier"}},
	{"change an alert's address", "$KV.ALERTS.alerts.one", []string{"admin"}},
	{"send an alert", "notify.0.one", []string{"admin", "notifier"}},
	{"read waiting alerts", "$JS.API.CONSUMER.CREATE.NOTIFY.one", []string{"admin", "notifier"}},
	{"publish the outcome of an alert", "notified.0", []string{"notifier"}},
	{"answer another client's request", "_INBOX.other.one", nil},
	{"send a request to the server's system account", "$SYS.REQ.SERVER.PING", nil},
}

func TestEachNATSUserMayDoItsWorkAndNothingElse(t *testing.T) {
	t.Parallel()
	address := queue(t)
	for _, user := range users {
		for _, action := range actions {
			err := attempt(t, address, user, func(nc *nats.Conn) error { return nc.Publish(action.subject, nil) })
			if allowed := slices.Contains(action.allowed, user); allowed != (err == nil) {
				t.Errorf("user %s, allowed %v, tries to %s: %v", user, allowed, action.name, err)
			}
		}
	}
}

func TestEachNATSUserReceivesItsOwnAnswersOnly(t *testing.T) {
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
				t.Errorf("user %s subscribes to %s: %v", user, subject, err)
			}
		}
	}
}

// attempt connects as a user, calls do and returns the server's refusal, or nil
// if it refused nothing.
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

func TestNATSRefusesClientsWithoutPassword(t *testing.T) {
	t.Parallel()
	address := queue(t)
	for _, options := range [][]nats.Option{nil, {nats.UserInfo("admin", "guess")}, {nats.UserInfo("nobody", secret)}} {
		nc, err := nats.Connect("nats://"+address, append(options, nats.Timeout(patience))...)
		if err == nil {
			nc.Close()
		}
		if !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("connecting without a valid password: got error %v, want %v", err, nats.ErrAuthorization)
		}
	}
}
