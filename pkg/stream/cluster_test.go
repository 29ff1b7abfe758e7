package stream_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/stream/streamtest"
)

const (
	// memberVariable names the file with the settings of one server of a cluster. A
	// test binary that has it runs that server, so that it can be killed.
	memberVariable = "LOGBOOM_TEST_NATS_MEMBER"
	// clusterPatience bounds a wait for the election of leaders, which takes some 4
	// to 9 s each time.
	clusterPatience = 60 * time.Second
	members         = 3
)

// serveMember runs a server until it is killed, or the test process has ended.
func serveMember(file string) {
	options, err := server.ProcessConfigFile(file)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	s, err := server.NewServer(options)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	s.ConfigureLogger()
	s.Start()
	_, _ = io.Copy(io.Discard, os.Stdin) // ends with the other end of the pipe
	os.Exit(0)
}

// cluster is three servers, each a process of its own.
type cluster struct {
	t       *testing.T
	files   [members]string // their settings
	address string          // all of theirs
	running [members]*exec.Cmd
	pipes   [members]io.Closer
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t}
	var ports [2 * members]int
	for i := range ports {
		ports[i] = streamtest.ReservePort(t)
	}
	var routes, addresses []string
	for i := range members {
		addresses = append(addresses, fmt.Sprintf("nats://127.0.0.1:%d", ports[i]))
		routes = append(routes, fmt.Sprintf("nats-route://127.0.0.1:%d", ports[members+i]))
	}
	c.address = strings.Join(addresses, ",")
	for i := range members {
		folder := t.TempDir()
		c.files[i] = filepath.Join(folder, "nats.conf")
		settings := fmt.Sprintf(`server_name: member-%d
listen: 127.0.0.1:%d
max_payload: 8MB
log_file: %q
jetstream { store_dir: %q, sync_interval: always, max_file_store: 8GB }
cluster { name: test, listen: 127.0.0.1:%d, routes: [%s] }
`, i, ports[i], filepath.Join(folder, "log"), folder, ports[members+i], strings.Join(routes, ", "))
		if err := os.WriteFile(c.files[i], []byte(settings), 0o600); err != nil {
			t.Fatal(err)
		}
		c.start(i)
		t.Cleanup(func() { c.kill(i) })
	}
	return c
}

func (c *cluster) start(i int) {
	c.t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), memberVariable+"="+c.files[i])
	command.Stderr = os.Stderr
	pipe, err := command.StdinPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		c.t.Fatalf("member %d: %v", i, err)
	}
	c.running[i], c.pipes[i] = command, pipe
}

// kill kills a server, which can neither clean up nor hand over its leadership.
func (c *cluster) kill(i int) {
	if c.running[i] == nil {
		return
	}
	_ = c.running[i].Process.Kill() // fails only where it has ended
	_ = c.running[i].Wait()         // tells that it was killed
	_ = c.pipes[i].Close()
	c.running[i] = nil
}

// wipe removes the files of a killed server.
func (c *cluster) wipe(i int) {
	c.t.Helper()
	if err := os.RemoveAll(filepath.Join(filepath.Dir(c.files[i]), "jetstream")); err != nil {
		c.t.Fatal(err)
	}
}

// open connects and opens the topology, as a process does at its start. It waits
// until the living servers have elected leaders.
func (c *cluster) open(ctx context.Context) (*stream.Topology, jetstream.JetStream) {
	c.t.Helper()
	nc, js, err := stream.Connect(ctx, c.address, stream.ConnectConfig{Name: "cluster"})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(nc.Close)
	topology, err := stream.Open(ctx, js, stream.Config{Shards: 1, Replicas: members, MaxBytes: 64 << 20, DeadMaxBytes: 16 << 20})
	if err != nil {
		c.t.Fatal(err)
	}
	return topology, js
}

// awaitCurrent waits until every server has every message of every stream.
func (c *cluster) awaitCurrent(ctx context.Context, js jetstream.JetStream, names []string) {
	c.t.Helper()
	await(ctx, c.t, "every replica is current", func() bool {
		return !slices.ContainsFunc(names, func(name string) bool {
			info, err := state(ctx, js, name)
			return err != nil || !current(info)
		})
	})
}

// state reads the state of a stream, with a short timeout: a request to a leader
// that was deposed is never answered.
func state(ctx context.Context, js jetstream.JetStream, name string) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	s, err := js.Stream(ctx, name)
	if err != nil {
		return nil, err
	}
	return s.CachedInfo(), nil
}

func current(info *jetstream.StreamInfo) bool {
	if info.Cluster == nil || info.Cluster.Leader == "" || len(info.Cluster.Replicas) != members-1 {
		return false
	}
	for _, replica := range info.Cluster.Replicas {
		if !replica.Current || replica.Offline {
			return false
		}
	}
	return true
}

// await repeats a check until it holds.
func await(ctx context.Context, t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("timed out waiting: %s", what)
		}
	}
}

// Whichever server is lost, the two others elect leaders: every accepted message is
// stored once, and the ledger and the leases go on working. The last server returns
// with an empty disk, which docs/operations.md allows.
func TestAClusterOfThreeLosesNothingWhileEachServerIsKilled(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*members*clusterPatience)
	defer cancel()
	topology, js := c.open(ctx)
	positions, err := streamtest.Answered(ctx, func() (*ledger.Ledger, error) { return ledger.Open(ctx, js, members, nil) })
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"LOGS_0", "EVENTS_0", "DEAD", "KV_LEDGER"}
	for _, name := range names {
		info, err := streamtest.Answered(ctx, func() (*jetstream.StreamInfo, error) { return state(ctx, js, name) })
		if err != nil || info.Config.Replicas != members {
			t.Fatalf("%s is not on all servers: %v", name, err)
		}
	}
	tr := &traffic{t: t, topology: topology, ledger: positions, publisher: streamtest.Publisher(t, topology, stream.PublisherConfig{AckTimeout: 5 * time.Second})}
	end := tr.begin(ctx)
	tr.awaitProgress(ctx, "the start")
	for i := range members {
		c.awaitCurrent(ctx, js, names)
		c.kill(i)
		c.open(ctx)
		tr.awaitProgress(ctx, fmt.Sprintf("member %d was killed", i))
		if i == members-1 {
			c.wipe(i)
		}
		c.start(i)
	}
	c.awaitCurrent(ctx, js, names)
	if err := end(); err != nil {
		t.Fatal(err)
	}
	tr.check(ctx)
}
