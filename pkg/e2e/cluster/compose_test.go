//go:build compose

package cluster

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestComposeServesAUserThroughKillsRestartsAndDown uses deploy/compose as its
// users do. No accepted record may be lost or doubled, and projects and tokens
// must survive a restart.
func TestComposeServesAUserThroughKillsRestartsAndDown(t *testing.T) {
	s := newStack(t)
	s.compose("up", "-d")
	s.begin()
	s.works("up")
	s.signIn()

	s.compose("up", "-d", "--scale", "writer=3", "--scale", "ingest=2")
	if writers, ingests := s.containers("writer"), s.containers("ingest"); len(writers) != 3 || len(ingests) != 2 {
		t.Fatalf("scaled to %d writers and %d ingest, not 3 and 2", len(writers), len(ingests))
	}
	s.works("scaled")

	for _, service := range []string{"writer", "ingest", "admin", "notifier", "nats", "redis", "clickhouse"} {
		s.crash(service)
		s.works(service + " crashed and started again by itself")
	}
	s.compose("kill", "clickhouse")
	s.send("clickhouse killed")
	s.compose("up", "-d", "--scale", "writer=3", "--scale", "ingest=2")
	s.works("clickhouse up again")

	s.compose("restart")
	s.works("restarted")
	s.compose("down")
	s.compose("up", "-d")
	s.works("down and up again")
	s.signIn()
	s.count()
}

// stack is an installation of a copy of deploy/compose.
type stack struct {
	t        *testing.T
	folder   string
	environ  []string
	settings map[string]string // .env
	browser  *http.Client
	token    string
	accepted []string // the text of every record that was accepted
}

// newStack creates what a user has before `docker compose up`: the folder with the
// .env that init.sh has written, which names the images to use.
func newStack(t *testing.T) *stack {
	t.Helper()
	plugin := os.Getenv("LOGBOOM_TEST_COMPOSE")
	if plugin == "" {
		t.Fatal("LOGBOOM_TEST_COMPOSE names no docker-compose: run make compose-up-test, which builds one")
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	images := prepare(t)
	work := t.TempDir()
	s := &stack{t: t, folder: filepath.Join(work, "compose"), settings: map[string]string{}, browser: &http.Client{Jar: jar, Timeout: 20 * time.Second}}
	t.Cleanup(s.browser.CloseIdleConnections)
	for _, name := range []string{"compose", "engines"} {
		if err := os.CopyFS(filepath.Join(work, name), os.DirFS("../../../deploy/"+name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{".env", "redis-users.acl"} {
		if err := os.RemoveAll(filepath.Join(s.folder, name)); err != nil { // left by an installation in the source tree
			t.Fatal(err)
		}
	}
	s.environ = s.surroundings(plugin, filepath.Join(work, "docker"))
	s.run("./init.sh")
	s.configure(images)
	t.Cleanup(s.discard)
	return s
}

// surroundings is the environment of commands: `docker compose` is the given
// program, and all settings come from .env.
func (s *stack) surroundings(plugin, folder string) []string {
	s.t.Helper()
	plugins := filepath.Join(folder, "cli-plugins")
	if err := os.MkdirAll(plugins, 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Symlink(plugin, filepath.Join(plugins, "docker-compose")); err != nil {
		s.t.Fatal(err)
	}
	kept := slices.DeleteFunc(os.Environ(), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return strings.HasPrefix(name, "LOGBOOM_") || strings.HasPrefix(name, "COMPOSE_") || strings.HasPrefix(name, "REDIS_") || strings.HasSuffix(name, "_IMAGE")
	})
	return append(kept, "DOCKER_CONFIG="+folder)
}

// configure changes in .env what differs on this machine, and reads it.
func (s *stack) configure(set images) {
	s.t.Helper()
	if local := "local/redis:latest"; (set.redis == local) != set.localTables {
		s.t.Fatal("LOGBOOM_TEST_REDIS_IMAGE and LOGBOOM_TEST_CLICKHOUSE_IMAGE: give both or neither, since compose.local.yaml is for local ones")
	}
	ports := freePorts(s.t)
	changes := map[string]string{
		"NATS_IMAGE": set.nats, "REDIS_IMAGE": set.redis, "CLICKHOUSE_IMAGE": set.clickhouse, "LOGBOOM_IMAGE_PREFIX": "local/logboom-",
		"LOGBOOM_INGEST_PORT": fmt.Sprintf("%d-%d", ports, ports+1), "LOGBOOM_ADMIN_PORT": strconv.Itoa(ports + 2),
	}
	path := filepath.Join(s.folder, ".env")
	text, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		name, value, is := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if !is || strings.HasPrefix(name, "#") {
			continue
		}
		s.settings[name] = cmp.Or(changes[name], value)
		fmt.Fprintf(&out, "%s=%s\n", name, s.settings[name])
	}
	fmt.Fprintf(&out, "COMPOSE_PROJECT_NAME=logboom-test-%d\n", os.Getpid())
	if set.localTables {
		fmt.Fprintln(&out, "COMPOSE_FILE=compose.yaml:compose.local.yaml")
	}
	if err := os.WriteFile(path, []byte(out.String()), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// freePorts returns the first of three consecutive ports on which no process listens.
func freePorts(t *testing.T) int {
	t.Helper()
	for first := 20000; first < 30000; first += 3 {
		if !slices.ContainsFunc([]int{first, first + 1, first + 2}, taken) {
			return first
		}
	}
	t.Fatal("no three free ports in a row between 20000 and 30000")
	return 0
}

func taken(port int) bool {
	listener, err := net.Listen("tcp", ":"+strconv.Itoa(port))
	return err != nil || listener.Close() != nil
}

// run runs a command in the folder and returns its output.
func (s *stack) run(name string, args ...string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, name, args...)
	command.Dir, command.Env = s.folder, s.environ
	var printed, said bytes.Buffer
	command.Stdout, command.Stderr = &printed, &said
	if err := command.Run(); err != nil {
		s.t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, &printed, &said)
	}
	return printed.String()
}

// compose is `docker compose`.
func (s *stack) compose(args ...string) string {
	s.t.Helper()
	began := time.Now()
	printed := s.run("docker", append([]string{"compose"}, args...)...)
	s.t.Logf("docker compose %s: %s", strings.Join(args, " "), time.Since(began).Round(100*time.Millisecond))
	return printed
}

// discard removes everything. After a failure it prints the logs.
func (s *stack) discard() {
	if s.t.Failed() {
		s.t.Log(s.compose("ps", "-a") + s.compose("logs", "--no-color", "--tail", "30"))
	}
	s.compose("down", "--volumes", "--timeout", "5")
}

// containers returns the IDs of a service's containers, the oldest first.
func (s *stack) containers(service string) []string {
	s.t.Helper()
	return strings.Fields(s.run("docker", "compose", "ps", "-q", service))
}

// crash kills the first process of a service by a signal. Unlike `docker kill` this
// makes Docker restart the container. crash waits for the restart.
func (s *stack) crash(service string) {
	s.t.Helper()
	id := s.containers(service)[0]
	before := s.inspect(id)
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", before.pid))
	if err != nil || !bytes.Contains(groups, []byte(id)) {
		s.t.Fatalf("the process of %s is not seen: the Docker daemon has to run on this machine, and the test as root", service)
	}
	if err := syscall.Kill(before.pid, syscall.SIGKILL); err != nil {
		s.t.Fatalf("kill %s: %v", service, err)
	}
	if !eventually(func() bool { after := s.inspect(id); return after.restarts > before.restarts && after.pid != 0 }) {
		s.t.Fatalf("%s was not started again within %s", service, patience)
	}
}

type state struct{ pid, restarts int }

func (s *stack) inspect(id string) state {
	s.t.Helper()
	var now state
	text := s.run("docker", "inspect", "--format", "{{.State.Pid}} {{.RestartCount}}", id)
	if _, err := fmt.Sscan(text, &now.pid, &now.restarts); err != nil {
		s.t.Fatalf("inspect %s: %q: %v", id, text, err)
	}
	return now
}

// ask sends a request and returns the answer, or an error if its status differs.
func (s *stack) ask(method, address, bearer, body string, status int) (string, error) {
	request, err := http.NewRequest(method, address, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	if bearer != "" {
		request.Header.Set("Authorization", "Bearer "+bearer)
		request.Header.Set("Idempotency-Key", sha256Hex(body)) // a repeated request is stored once
	}
	if method == http.MethodPost && bearer == "" {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := s.browser.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != status {
		err = fmt.Errorf("%s %s: answer %d, not %d: %.300s", method, address, response.StatusCode, status, text)
	}
	return string(text), err
}

// must repeats a request until it has the status, because a container that has just
// started does not listen yet.
func (s *stack) must(method, address, bearer, body string, status int) (answer string) {
	s.t.Helper()
	var err error
	if !eventually(func() bool { answer, err = s.ask(method, address, bearer, body, status); return err == nil }) {
		s.t.Fatal(err)
	}
	return answer
}

func (s *stack) admin(path string) string {
	return "http://127.0.0.1:" + s.settings["LOGBOOM_ADMIN_PORT"] + path
}

func (s *stack) key() string { return s.settings["LOGBOOM_BOOTSTRAP_API_KEY"] }

// begin creates a project and a token.
func (s *stack) begin() {
	s.t.Helper()
	s.must(http.MethodPost, s.admin("/api/v1/projects"), s.key(), `{"name":"`+shop+`"}`, http.StatusCreated)
	text := s.must(http.MethodPost, s.admin("/api/v1/projects/"+shop+"/tokens"), s.key(), `{"name":"web"}`, http.StatusCreated)
	var made struct {
		Token string `json:"token"`
	}
	if err := json.Unmarshal([]byte(text), &made); err != nil || made.Token == "" {
		s.t.Fatalf("no token in %s: %v", text, err)
	}
	s.token = made.Token
}

// signIn signs in on the pages.
func (s *stack) signIn() {
	s.t.Helper()
	form := url.Values{"email": {s.settings["LOGBOOM_BOOTSTRAP_ADMIN_EMAIL"]}, "password": {s.settings["LOGBOOM_BOOTSTRAP_ADMIN_PASSWORD"]}}
	s.must(http.MethodPost, s.admin("/sign-in"), "", form.Encode(), http.StatusOK)
	page := s.must(http.MethodGet, s.admin("/projects/"+shop+"/logs"), "", "", http.StatusOK)
	if !strings.Contains(page, "/sign-out") {
		s.t.Errorf("not signed in: %.500s", page)
	}
}

// send sends a record to every ingest.
func (s *stack) send(what string) {
	s.t.Helper()
	for i, id := range s.containers("ingest") {
		port := strings.TrimSpace(s.run("docker", "inspect", "--format", `{{(index (index .NetworkSettings.Ports "8080/tcp") 0).HostPort}}`, id))
		text := fmt.Sprintf("record %s %d", what, i)
		body, err := json.Marshal(map[string]string{"data": text})
		if err != nil {
			s.t.Fatal(err)
		}
		s.must(http.MethodPost, "http://127.0.0.1:"+port+"/v1/logs/"+shop, s.token, string(body), http.StatusAccepted)
		s.accepted = append(s.accepted, text)
	}
}

// works sends records and waits until they can be read.
func (s *stack) works(when string) {
	s.t.Helper()
	began := time.Now()
	s.send(when)
	text := s.accepted[len(s.accepted)-1]
	if !eventually(func() bool { return slices.ContainsFunc(s.stored(), func(l line) bool { return l.Data == text }) }) {
		s.t.Fatalf("%s: %q was accepted but cannot be read after %s", when, text, patience)
	}
	s.t.Logf("%s: sent and read back after %s", when, time.Since(began).Round(100*time.Millisecond))
}

// stored returns the records that can be read now.
func (s *stack) stored() []line {
	text, err := s.ask(http.MethodGet, s.admin("/api/v1/projects/"+shop+"/logs?limit=1000"), s.key(), "", http.StatusOK)
	var answer struct {
		Logs []line `json:"logs"`
	}
	if err != nil || json.Unmarshal([]byte(text), &answer) != nil {
		return nil
	}
	return answer.Logs
}

// count checks that each accepted record is stored exactly once.
func (s *stack) count() {
	s.t.Helper()
	var v verdict
	if !eventually(func() bool { v = judge(s.accepted, s.stored()); return v.missing == 0 }) || v != (verdict{}) {
		s.t.Errorf("of %d accepted records %d are not stored, %d are stored again, %d were never accepted", len(s.accepted), v.missing, v.doubled, v.strange)
	}
	s.t.Logf("%d records accepted", len(s.accepted))
}
