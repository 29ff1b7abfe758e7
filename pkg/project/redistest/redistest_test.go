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

	"github.com/logboom/logboom/pkg/project/redistest"
)

func ping(t *testing.T, address string, within time.Duration) error {
	t.Helper()
	parsed, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.DialTimeout("tcp", parsed.Host, within)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && strings.TrimSpace(answer) != "+PONG" {
		t.Fatalf("PING was answered %q", answer)
	}
	return err
}

func TestServerAnswersFreezesAndComesBack(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	if err := ping(t, s.URL(), 5*time.Second); err != nil {
		t.Fatal(err)
	}
	s.Pause(t)
	if err := ping(t, s.URL(), 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a paused server answered: %v", err)
	}
	s.Resume(t)
	if err := ping(t, s.URL(), 5*time.Second); err != nil {
		t.Fatal(err)
	}
	s.Kill(t)
	if err := ping(t, s.URL(), time.Second); err == nil {
		t.Fatal("a killed server answered")
	}
	s.Restart(t)
	if err := ping(t, s.URL(), 5*time.Second); err != nil {
		t.Fatal(err)
	}
}
