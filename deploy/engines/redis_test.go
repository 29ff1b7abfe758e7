package engines

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/logboom/logboom/pkg/quota"
	logboomredis "github.com/logboom/logboom/pkg/redis"
	"github.com/logboom/logboom/pkg/token"
)

// cache runs a Redis server with redis.conf and the users' file, and returns
// the path of its socket.
func cache(t *testing.T) string {
	t.Helper()
	server, err := exec.LookPath("redis-server")
	if err != nil {
		server, err = exec.LookPath("redis-check-rdb") // the server's name in Debian's redis-tools
	}
	if err == nil {
		server, err = filepath.EvalSymlinks(server)
	}
	if err != nil {
		t.Fatal("redis-server is not installed: run apt-get install redis-tools (or redis-server) and try again")
	}
	folder := t.TempDir()
	sum := sha256.Sum256([]byte(secret))
	digest := hex.EncodeToString(sum[:])
	users := strings.NewReplacer("@INGEST_SHA256@", digest, "@ADMIN_SHA256@", digest).Replace(read(t, "redis-users.acl"))
	settings := strings.ReplaceAll(read(t, "redis.conf"), "/etc/redis/users.acl", filepath.Join(folder, "users.acl"))
	for name, text := range map[string]string{"users.acl": users, "redis.conf": settings} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	socket := filepath.Join(folder, "s")
	command := exec.Command(server)
	command.Args = []string{"redis-server", filepath.Join(folder, "redis.conf"), "--port", "0", "--unixsocket", socket, "--dir", folder}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	awaitSocket(t, socket)
	return socket
}

// awaitSocket waits until the server accepts connections. The socket exists
// before it does.
func awaitSocket(t *testing.T, socket string) {
	t.Helper()
	awaitThat(t, "redis-server accepts connections", func() bool {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			return false
		}
		_ = conn.Close() // nothing was sent
		return true
	})
}

// connect connects as a user with the options of the processes, except their
// timeouts of 50 ms: a busy machine sometimes exceeds those.
func connect(t *testing.T, socket, user string) *redis.Client {
	t.Helper()
	original, err := logboomredis.Open("unix://"+user+":"+secret+"@"+socket, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	options := *original.Options()
	_ = original.Close() // it was never connected
	options.Dialer = nil // create a new one with the timeouts below
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout, options.PoolTimeout = patience, patience, patience, patience
	client := redis.NewClient(&options)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestIngestCachesTokensAndCountsQuotas(t *testing.T) {
	t.Parallel()
	client := connect(t, cache(t), "ingest")
	shared := token.NewRedisShared(client)
	ctx := t.Context()
	if err := shared.Store(ctx, "t:1:a", []byte("x"), time.Hour); err != nil {
		t.Errorf("store a token: %v", err)
	}
	if found, err := shared.Load(ctx, "t:1:a"); err != nil || string(found) != "x" {
		t.Errorf("load a token: %q, %v", found, err)
	}
	if err := shared.Drop(ctx, "t:1:a"); err != nil {
		t.Errorf("drop a token: %v", err)
	}
	limiter := quota.NewRedis(client, quota.Config{Timeout: patience})
	_, err := limiter.Charge(ctx, "p", quota.Limits{Rate: 100, DailyRecords: 1000, MonthlyBytes: 1 << 20}, 1, 10)
	if stats := limiter.Stats(); err != nil || stats.RoundTrips == 0 || stats.Failures > 0 {
		t.Errorf("quotas are not counted in Redis: %+v, %v", stats, err)
	}
}

func TestEachRedisUserMayDoNothingElse(t *testing.T) {
	t.Parallel()
	socket := cache(t)
	forbidden := [][]any{
		{"GET", "other"}, {"SET", "other", "1"}, {"FLUSHALL"}, {"FLUSHDB"}, {"KEYS", "*"}, {"SCAN", "0"}, {"CONFIG", "GET", "*"},
		{"CONFIG", "SET", "dir", "/"}, {"ACL", "LIST"}, {"ACL", "SETUSER", "x", "on"}, {"SHUTDOWN"}, {"CLIENT", "LIST"},
		{"CLIENT", "KILL", "TYPE", "normal"}, {"MONITOR"}, {"SAVE"}, {"REPLICAOF", "h", "1"}, {"MODULE", "LIST"}, {"SCRIPT", "FLUSH"}, {"PUBLISH", "c", "m"},
		{"EVAL", "return redis.call('GET', 'other')", "0"}, {"EVAL", "return redis.call('GET', KEYS[1])", "1", "other"}, {"FUNCTION", "LIST"},
	}
	for user, more := range map[string][][]any{"ingest": nil, "admin": {{"GET", "t:1:a"}, {"SET", "t:1:a", "1"}}} {
		client := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, Username: user, Password: secret, DialTimeout: patience, ReadTimeout: patience})
		for _, command := range append(more, forbidden...) {
			err := client.Do(t.Context(), command...).Err()
			if !refused(err) {
				t.Errorf("user %s runs %v: error %v, want it refused", user, command, err)
			}
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, options := range []*redis.Options{{}, {Username: "ingest", Password: "guess"}, {Password: secret}} {
		options.Network, options.Addr = "unix", socket
		client := redis.NewClient(options)
		if err := client.Ping(t.Context()).Err(); err == nil {
			t.Errorf("user %q was accepted without the right password", options.Username)
		}
		_ = client.Close() // it was refused
	}
}

// refused reports whether Redis refused a command, or a command inside a
// script, because the user lacks the right.
func refused(err error) bool {
	return err != nil && (strings.HasPrefix(err.Error(), "NOPERM") || strings.Contains(err.Error(), "no permission") || strings.Contains(err.Error(), "can't access at least one of the keys"))
}
