//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/logboom/logboom/pkg/freeport"
	"github.com/logboom/logboom/pkg/token"
)

const (
	buildWithin = 20 * time.Minute
	upWithin    = 5 * time.Minute
	// Sizes of the two disks. The images are sparse and use only what is written.
	queueDisk  = 3 << 30
	tablesDisk = 6 << 30
	// streamBytes bounds each of the queue's eight streams.
	streamBytes = "256MiB"
	projectName = "torture"
	copies      = 2               // of ingest and of the writer
	readyMark   = "process ready" // what a process prints once it works
)

// system is the system under test: processes, engines, and proxies in between.
type system struct {
	folder   string
	binaries string
	control  control // replaces the writer, if set

	queueVolume, tablesVolume *volume // nil: plain folders

	nats, redis, tables, admin *service
	ingest, writers            []*service

	// The connections from processes to engines that faults can break.
	ingestQueue, ingestRedis, writerQueue, writerTables *proxy

	natsAddr, redisAddr, tablesAddr string
	ingestAddrs                     []string
	password, token                 string

	given map[string]bool // addresses that a process will listen on later
}

// addr returns a free address that it has not returned before: all are chosen before
// any process listens.
func (s *system) addr() (string, error) {
	for {
		addr, err := freeport.Address()
		if err != nil || !s.given[addr] {
			s.given[addr] = true
			return addr, err
		}
	}
}

// url returns the URL of ClickHouse at an address, its own or a proxy's.
func (s *system) url(addr string) string {
	return "http://default:" + s.password + "@" + addr + "/logboom"
}

// services returns all processes in the order of their start.
func (s *system) services() []*service {
	all := []*service{s.nats, s.redis, s.tables, s.admin}
	return slices.Concat(all, s.ingest, s.writers)
}

func (s *system) proxies() []*proxy {
	return []*proxy{s.ingestQueue, s.ingestRedis, s.writerQueue, s.writerTables}
}

// newSystem builds the programs and prepares everything; it starts nothing.
func newSystem(ctx context.Context, folder string, disks bool, stand control) (*system, error) {
	s := &system{folder: folder, binaries: filepath.Join(folder, "bin"), control: stand, password: rand.Text(), token: token.New().Reveal(), given: map[string]bool{}}
	if err := s.build(ctx); err != nil {
		return nil, err
	}
	for _, name := range []string{"queue", "tables", "logs"} {
		if err := os.MkdirAll(filepath.Join(folder, name), 0o755); err != nil {
			return nil, err
		}
	}
	if disks {
		var err error
		if s.queueVolume, err = makeVolume(ctx, folder, "queue", queueDisk); err != nil {
			return nil, err
		}
		if s.tablesVolume, err = makeVolume(ctx, folder, "tables", tablesDisk); err != nil {
			return nil, err
		}
	}
	if err := s.connect(); err != nil {
		return nil, err
	}
	return s, s.lay()
}

// build builds the programs, the writer with its failpoints, and the nats-server of
// the version in go.mod.
func (s *system) build(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, buildWithin)
	defer cancel()
	return command(ctx, "go", "build", "-tags", "failpoint", "-o", s.binaries+"/",
		"github.com/logboom/logboom/cmd/ingest",
		"github.com/logboom/logboom/cmd/writer",
		"github.com/logboom/logboom/cmd/admin",
		"github.com/nats-io/nats-server/v2")
}

// connect chooses the engines' ports and creates a proxy for each connection.
func (s *system) connect() error {
	for _, addr := range []*string{&s.natsAddr, &s.redisAddr, &s.tablesAddr} {
		var err error
		if *addr, err = s.addr(); err != nil {
			return err
		}
	}
	for _, way := range []struct {
		proxy        **proxy
		name, target string
	}{
		{&s.ingestQueue, "ingest-queue", s.natsAddr},
		{&s.ingestRedis, "ingest-redis", s.redisAddr},
		{&s.writerQueue, "writer-queue", s.natsAddr},
		{&s.writerTables, "writer-tables", s.tablesAddr},
	} {
		var err error
		if *way.proxy, err = listenProxy(way.name, way.target); err != nil {
			return err
		}
	}
	return nil
}

// lay describes every process.
func (s *system) lay() error {
	conf := filepath.Join(s.folder, "nats.conf")
	text := fmt.Sprintf("listen: %q\nmax_payload: 8MB\njetstream { store_dir: %q, sync_interval: always, max_file_store: 32GB }\n",
		s.natsAddr, filepath.Join(s.folder, "queue", "nats"))
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return err
	}
	redis, err := redisProgram(s.binaries)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	_, redisPort, err := net.SplitHostPort(s.redisAddr)
	if err != nil {
		return err
	}
	layer := &layer{system: s}
	s.nats = layer.service("nats", filepath.Join(s.binaries, "nats-server"), []string{"-c", conf})
	s.redis = layer.service("redis", redis, []string{"--port", redisPort, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.folder})
	s.tables = layer.service("engine", self, []string{engineMode}, engineEnv(s.tablesAddr, filepath.Join(s.folder, "tables", "engine"), s.password)...)
	s.layServices(layer, self)
	return layer.err
}

func (s *system) layServices(layer *layer, self string) {
	common := []string{"LOGBOOM_STREAM_BYTES=" + streamBytes, "LOGBOOM_LOG_FORMAT=json"}
	s.admin = layer.ours("admin", filepath.Join(s.binaries, "admin"), []string{"--admin-addr=127.0.0.1:0"}, slices.Concat(common, []string{
		"LOGBOOM_NATS_URL=nats://" + s.natsAddr, "LOGBOOM_CLICKHOUSE_URL=" + s.url(s.tablesAddr),
		"LOGBOOM_BOOTSTRAP_PROJECT=" + projectName, "LOGBOOM_BOOTSTRAP_TOKEN=" + s.token})...)
	for i := range copies {
		s.ingestAddrs = append(s.ingestAddrs, layer.addr())
		s.ingest = append(s.ingest, layer.ours(fmt.Sprintf("ingest-%d", i), filepath.Join(s.binaries, "ingest"),
			[]string{"--ingest-addr=" + s.ingestAddrs[i]}, slices.Concat(common, []string{
				"LOGBOOM_NATS_URL=nats://" + s.ingestQueue.addr(), "LOGBOOM_REDIS_URL=redis://" + s.ingestRedis.addr() + "/0"})...))
	}
	ways := []string{"LOGBOOM_NATS_URL=nats://" + s.writerQueue.addr(), "LOGBOOM_CLICKHOUSE_URL=" + s.url(s.writerTables.addr())}
	if s.control != "" {
		s.writers = append(s.writers, layer.service("writer-0", self, []string{controlMode, string(s.control)}, ways...))
		return
	}
	for i := range copies {
		s.writers = append(s.writers, layer.ours(fmt.Sprintf("writer-%d", i), filepath.Join(s.binaries, "writer"),
			nil, slices.Concat(common, ways, []string{writerDays})...))
	}
}

// layer keeps the first error of laying out.
type layer struct {
	system *system
	err    error
}

func (l *layer) service(name, path string, args []string, env ...string) *service {
	s, err := newService(filepath.Join(l.system.folder, "logs"), name, path, args, env)
	l.err = errors.Join(l.err, err)
	return s
}

// ours adds a process with metrics.
func (l *layer) ours(name, path string, args []string, env ...string) *service {
	ops := l.addr()
	s := l.service(name, path, append(args, "--ops-addr="+ops), env...)
	if s != nil {
		s.ops = ops
	}
	return s
}

func (l *layer) addr() string {
	addr, err := l.system.addr()
	l.err = errors.Join(l.err, err)
	return addr
}

// run keeps every process and proxy running until ctx ends.
func (s *system) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range s.proxies() {
		group.Go(func() error { return p.run(ctx) })
	}
	for _, service := range s.services() {
		group.Go(func() error { return service.run(ctx) })
	}
	return group.Wait()
}

// ready waits until all of our processes are ready. Then the engines are, because
// the processes wait for them.
func (s *system) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, upWithin)
	defer cancel()
	for _, service := range slices.Concat([]*service{s.admin}, s.ingest, s.writers) {
		for !service.isReady() {
			if err := pause(ctx, 50*time.Millisecond); err != nil {
				return fmt.Errorf("%s was not ready within %s:\n%s", service.name, upWithin, s.tails())
			}
		}
	}
	return nil
}

// tails returns the end of each process's output.
func (s *system) tails() string {
	var b strings.Builder
	for _, service := range s.services() {
		fmt.Fprintf(&b, "--- %s\n%s", service.name, service.out.last())
	}
	return b.String()
}

// undo undoes whatever a fault has left behind that was cut short.
func (s *system) undo() {
	for _, p := range s.proxies() {
		p.after(0, nil)
		p.set(flowing)
	}
	for _, service := range s.services() {
		service.release()
		if pid := service.pid(); pid != 0 {
			_ = service.signal(syscall.SIGCONT) // it may have just ended
		}
	}
}

// redisProgram returns the path of redis-server. Debian's redis-tools has it under
// another name: redis-check-rdb is the same program, which acts by its name.
func redisProgram(folder string) (string, error) {
	if path, err := exec.LookPath("redis-server"); err == nil {
		return path, nil
	}
	path, err := exec.LookPath("redis-check-rdb")
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", errors.New("no redis-server on this machine: apt-get install redis-tools (or redis-server) and try again")
	}
	link := filepath.Join(folder, "redis-server")
	return link, os.Symlink(path, link)
}
