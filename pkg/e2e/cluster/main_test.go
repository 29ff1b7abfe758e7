package cluster

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// inside is set if the tests run in their own network namespace.
const inside = "LOGBOOM_TEST_IN_NAMESPACE"

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster tests:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// run finds or starts a Docker daemon for the tests.
func run(m *testing.M) (code int, err error) {
	for name, value := range map[string]string{
		"TESTCONTAINERS_RYUK_DISABLED": "true", // its image may not be available; the tests clean up themselves
		"TESTCONTAINERS_HOST_OVERRIDE": "127.0.0.1",
	} {
		if err := os.Setenv(name, value); err != nil {
			return 1, err
		}
	}
	switch {
	case os.Getenv(inside) != "":
		d, err := startDaemon()
		if err != nil {
			return 1, err
		}
		defer func() { err = errors.Join(err, d.stop()) }()
	case !answers():
		return again()
	}
	return m.Run(), nil
}

// answers reports whether a Docker daemon listens at the usual address.
func answers() bool {
	host := os.Getenv("DOCKER_HOST")
	if host != "" && !strings.HasPrefix(host, "unix://") {
		return true // set explicitly; a wrong address fails at the first use
	}
	socket := strings.TrimPrefix(host, "unix://")
	if socket == "" {
		socket = "/var/run/docker.sock"
	}
	return dials(socket)
}

func dials(socket string) bool {
	conn, err := (&net.Dialer{Timeout: time.Second}).Dial("unix", socket)
	if err != nil {
		return false
	}
	return conn.Close() == nil
}
