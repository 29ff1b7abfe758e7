package cluster

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/network"
	"github.com/testcontainers/testcontainers-go/wait"

	"github.com/logboom/logboom/pkg/token"
)

const (
	apiKey   = "an-api-key-of-32-characters-or-more"
	password = "of-this-test-alone"
	shop     = "shop"
)

// cluster is Logboom with its engines in containers.
type cluster struct {
	t      testing.TB
	docker *client.Client
	images images
	inner  string // the network of processes and engines
	outer  string // the network over which the tests reach processes
	token  string

	nats, redis, clickhouse *box

	mu      sync.Mutex
	running map[string][]*box // the processes, by kind
	made    int
}

// newCluster starts the engines and two of each process.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, images: prepare(t), running: map[string][]*box{}}
	docker, err := testcontainers.NewDockerClientWithOpts(t.Context())
	if err != nil {
		t.Fatalf("Docker: %v", err)
	}
	t.Cleanup(func() { _ = docker.Close() })
	c.docker = docker.Client
	c.inner, c.outer = newNetwork(t), newNetwork(t)
	c.token = token.New().Reveal()
	c.startEngines()
	migrate := c.launch("migrate", "local/logboom-admin:latest", map[string][]string{c.inner: {"migrate"}},
		testcontainers.WithCmd("migrate"), testcontainers.WithHostConfigModifier(confined), testcontainers.WithEnv(c.environment("admin")),
		testcontainers.WithWaitStrategy(wait.ForExit().WithExitTimeout(patience)))
	migrate.retire()
	for _, kind := range []string{"admin", "writer", "notifier", "ingest"} {
		for range 2 {
			c.add(kind)
		}
	}
	return c
}

func newNetwork(t *testing.T) string {
	t.Helper()
	made, err := network.New(t.Context())
	if err != nil {
		t.Fatalf("network: %v", err)
	}
	t.Cleanup(func() { _ = made.Remove(context.Background()) })
	return made.Name
}

// startEngines starts the engines with the users and settings of deploy/engines.
func (c *cluster) startEngines() {
	passwords := map[string]string{}
	for _, user := range []string{"ADMIN", "INGEST", "WRITER", "NOTIFIER", "READER"} {
		passwords["LOGBOOM_NATS_"+user+"_PASSWORD"] = password
		passwords["LOGBOOM_CLICKHOUSE_"+user+"_PASSWORD"] = password
	}
	inside := func(name string) map[string][]string { return map[string][]string{c.inner: {name}} }
	c.nats = c.launch("nats", c.images.nats, inside("nats"), testcontainers.WithEnv(passwords),
		testcontainers.WithFiles(c.file("nats.conf", "/etc/nats/nats.conf", nil)),
		testcontainers.WithCmd("-c", "/etc/nats/nats.conf"), testcontainers.WithWaitStrategy(wait.ForLog("Server is ready").WithStartupTimeout(patience)))
	digest := sha256Hex(password)
	c.redis = c.launch("redis", c.images.redis, inside("redis"),
		testcontainers.WithFiles(c.file("redis.conf", "/etc/redis/redis.conf", nil),
			c.file("redis-users.acl", "/etc/redis/users.acl", strings.NewReplacer("@INGEST_SHA256@", digest, "@ADMIN_SHA256@", digest))),
		testcontainers.WithCmd("/etc/redis/redis.conf"), testcontainers.WithWaitStrategy(wait.ForLog("Ready to accept connections").WithStartupTimeout(patience)))
	options := []testcontainers.ContainerCustomizer{
		testcontainers.WithExposedPorts("8123/tcp"),
		testcontainers.WithWaitStrategy(wait.ForHTTP("/ping").WithPort("8123/tcp").WithStartupTimeout(patience)),
	}
	if c.images.localTables {
		options = append(options, testcontainers.WithEnv(map[string]string{"CLICKHOUSE_PASSWORD": password}))
	} else {
		passwords["CLICKHOUSE_SKIP_USER_SETUP"] = "1"
		options = append(options, testcontainers.WithEnv(passwords), testcontainers.WithFiles(
			c.file("clickhouse-server.xml", "/etc/clickhouse-server/config.d/logboom.xml", nil),
			c.file("clickhouse-users.xml", "/etc/clickhouse-server/users.d/logboom.xml", nil)))
	}
	c.clickhouse = c.launch("clickhouse", c.images.clickhouse, inside("clickhouse"), options...)
}

// file is a file of deploy/engines at the path where the engine reads it.
func (c *cluster) file(name, path string, change *strings.Replacer) testcontainers.ContainerFile {
	text, err := os.ReadFile("../../../deploy/engines/" + name)
	if err != nil {
		c.t.Fatal(err)
	}
	if change == nil {
		change = strings.NewReplacer()
	}
	return testcontainers.ContainerFile{Reader: strings.NewReader(change.Replace(string(text))), ContainerFilePath: path, FileMode: 0o644}
}

// environment returns a process's settings, with its own user of each engine.
func (c *cluster) environment(kind string) map[string]string {
	tables := "http://logboom_" + kind + ":" + password + "@clickhouse:8123/logboom"
	if c.images.localTables {
		tables = "http://default:" + password + "@clickhouse:8123/logboom"
	}
	environment := map[string]string{
		"LOGBOOM_NATS_URL":       fmt.Sprintf("nats://%s:%s@nats:4222", kind, password),
		"LOGBOOM_REDIS_URL":      fmt.Sprintf("redis://%s:%s@redis:6379/0", kind, password),
		"LOGBOOM_CLICKHOUSE_URL": tables,
		"LOGBOOM_SECRET_KEY":     "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
		"LOGBOOM_STREAM_BYTES":   "256MiB",
	}
	if kind == "admin" {
		environment["LOGBOOM_BOOTSTRAP_PROJECT"], environment["LOGBOOM_BOOTSTRAP_TOKEN"] = shop, c.token
		environment["LOGBOOM_BOOTSTRAP_API_KEY"] = apiKey
	}
	return environment
}

// add starts one more process of a kind.
func (c *cluster) add(kind string) *box {
	c.t.Helper()
	c.mu.Lock()
	c.made++
	name := fmt.Sprintf("%s-%d", kind, c.made)
	c.mu.Unlock()
	b := c.launch(name, "local/logboom-"+kind+":latest", map[string][]string{c.inner: {name}, c.outer: {name}},
		testcontainers.WithEnv(c.environment(kind)), testcontainers.WithExposedPorts("8080/tcp", "8081/tcp", "9100/tcp"),
		testcontainers.WithHostConfigModifier(confined), testcontainers.WithWaitStrategy(ready()))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[kind] = append(c.running[kind], b)
	return b
}

// of returns the processes of a kind, the oldest first.
func (c *cluster) of(kind string) []*box {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.running[kind])
}

// remove stops and removes a process.
func (c *cluster) remove(kind string, b *box) {
	c.t.Helper()
	c.mu.Lock()
	c.running[kind] = slices.DeleteFunc(c.running[kind], func(one *box) bool { return one == b })
	c.mu.Unlock()
	b.retire()
}
