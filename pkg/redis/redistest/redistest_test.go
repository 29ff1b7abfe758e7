package redistest_test

import (
	"bufio"
	"errors"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/redis/redistest"
)

// patient bounds the wait for answers that have to come.
const patient = time.Minute

// ping sends a PING and waits for the answer.
func ping(t *testing.T, address string, within time.Duration) error {
	t.Helper()
	parsed, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.DialTimeout("tcp", parsed.Host, patient)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && strings.TrimSpace(answer) != "+PONG" {
		t.Fatalf("PING was answered %q", answer)
	}
	return err
}

func TestServerCanBePausedAndKilled(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	if err := ping(t, s.URL(), patient); err != nil {
		t.Fatal(err)
	}
	s.Pause(t)
	if err := ping(t, s.URL(), 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a paused server answered: %v", err)
	}
	s.Resume(t)
	if err := ping(t, s.URL(), patient); err != nil {
		t.Fatal(err)
	}
	s.Kill(t)
	if err := ping(t, s.URL(), patient); err == nil {
		t.Fatal("a killed server answered")
	}
	s.Restart(t)
	if err := ping(t, s.URL(), patient); err != nil {
		t.Fatal(err)
	}
}
