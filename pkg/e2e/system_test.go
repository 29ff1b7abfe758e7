package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
	"github.com/logboom/logboom/pkg/redis/redistest"
)

// system is a running Logboom with what its user needs.
type system struct {
	ingest, admin string // addresses, with scheme
	ops           map[string]string
	project       string
	token, apiKey string
	processes     []*process // in the order of their stop
	nats          *process   // only if separate, like the next fields
	queue, tables string     // addresses of NATS and ClickHouse
	cache         *redistest.Server

	another func(t testing.TB) string // only if separate: starts one more ingest and returns its address
	restart func(t testing.TB)        // stops what still runs and starts everything again with the same data
}

// each runs a test against both forms of the system, each newly started.
func each(t *testing.T, test func(t *testing.T, s *system)) {
	t.Helper()
	t.Run("standalone", func(t *testing.T) { test(t, standalone(t)) })
	t.Run("separate", func(t *testing.T) { test(t, separate(t)) })
}

var welcomed = map[string]*regexp.Regexp{
	"token":   regexp.MustCompile(`token +(lgb_[0-9A-Za-z]+)`),
	"API key": regexp.MustCompile(`API key +(\S+)`),
}

// standalone starts standalone as a new user does, with only a data folder.
func standalone(t testing.TB) *system {
	t.Helper()
	s := &system{project: "demo", ops: map[string]string{}}
	data := t.TempDir()
	start := func(t testing.TB) {
		t.Helper()
		p := spawn(t, "standalone", []string{
			"--data-dir=" + data, "--ingest-addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0", "--ops-addr=127.0.0.1:0",
			"--stream-bytes=256MiB", "--log-level=debug",
		}, nil)
		p.await("ready", func(line string) bool { return strings.Contains(line, "process ready") })
		s.ingest, s.admin = "http://"+p.attribute("ingest port open", "addr"), "http://"+p.attribute("admin port open", "addr")
		s.ops["standalone"] = "http://" + p.attribute("operations port open", "addr")
		s.processes = []*process{p}
	}
	start(t)
	for what, form := range welcomed {
		found := form.FindStringSubmatch(s.processes[0].output())
		if found == nil {
			t.Fatalf("standalone printed no %s:\n%s", what, s.processes[0].output())
		}
		if what == "token" {
			s.token = found[1]
			continue
		}
		s.apiKey = found[1]
	}
	s.restart = func(t testing.TB) { s.processes[0].kill(); start(t) }
	return s
}

// separate starts the processes of a cluster and the engines that they need.
func separate(t testing.TB, settings ...string) *system {
	t.Helper()
	s := &system{project: "shop", apiKey: "an-api-key-of-32-characters-or-more", ops: map[string]string{}}
	s.token = newToken(t)
	s.nats, s.queue = natsServer(t)
	s.tables, s.cache = enginetest.URL(t), redistest.Start(t)
	env := append([]string{
		"LOGBOOM_NATS_URL=" + s.queue,
		"LOGBOOM_REDIS_URL=" + s.cache.URL(),
		"LOGBOOM_CLICKHOUSE_URL=" + s.tables,
		"LOGBOOM_SECRET_KEY=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
		"LOGBOOM_OPS_ADDR=127.0.0.1:0", "LOGBOOM_STREAM_BYTES=256MiB", "LOGBOOM_LOG_LEVEL=debug",
	}, settings...)
	boot := append(slices.Clone(env), "LOGBOOM_BOOTSTRAP_PROJECT="+s.project, "LOGBOOM_BOOTSTRAP_TOKEN="+s.token, "LOGBOOM_BOOTSTRAP_API_KEY="+s.apiKey,
		"LOGBOOM_BOOTSTRAP_ADMIN_EMAIL=admin@example.com", "LOGBOOM_BOOTSTRAP_ADMIN_PASSWORD=correct horse battery")
	start := func(t testing.TB) {
		t.Helper()
		admin := spawn(t, "admin", []string{"--admin-addr=127.0.0.1:0"}, boot)
		writer := spawn(t, "writer", nil, env)
		ingest := spawn(t, "ingest", []string{"--ingest-addr=127.0.0.1:0"}, env)
		s.processes = []*process{ingest, writer, admin}
		for _, p := range s.processes {
			p.await("ready", func(line string) bool { return strings.Contains(line, "process ready") })
			s.ops[p.name] = "http://" + p.attribute("operations port open", "addr")
		}
		s.ingest, s.admin = "http://"+ingest.attribute("ingest port open", "addr"), "http://"+admin.attribute("admin port open", "addr")
	}
	start(t)
	s.another = func(t testing.TB) string {
		p := spawn(t, "ingest", []string{"--ingest-addr=127.0.0.1:0"}, env)
		p.await("ready", func(line string) bool { return strings.Contains(line, "process ready") })
		return "http://" + p.attribute("ingest port open", "addr")
	}
	s.restart = func(t testing.TB) {
		for _, p := range s.processes {
			p.kill()
		}
		start(t)
	}
	return s
}

// newToken returns a token from the admin command.
func newToken(t testing.TB) string {
	t.Helper()
	p := spawn(t, "admin", []string{"token", "new"}, nil)
	<-p.done
	return p.await("its token", func(line string) bool { return strings.HasPrefix(line, "lgb_") })
}

var listens = regexp.MustCompile(`Listening for client connections on (127\.0\.0\.1:[0-9]+)`)

// natsServer starts a nats-server that syncs always, on a port that it chooses, and
// returns its address.
func natsServer(t testing.TB) (*process, string) {
	t.Helper()
	folder := t.TempDir()
	file := filepath.Join(folder, "nats.conf")
	settings := fmt.Sprintf("listen: \"127.0.0.1:-1\"\nmax_payload: 8MB\njetstream { store_dir: %q, sync_interval: always, max_file_store: 32GB }\n", folder)
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	p := spawn(t, "nats-server", []string{"-c", file}, nil)
	p.await("readiness", func(line string) bool { return strings.Contains(line, "Server is ready") })
	line := p.await("its port", listens.MatchString)
	return p, "nats://" + listens.FindStringSubmatch(line)[1]
}
