// Package freeport finds ports for servers of tests and of the torture harness
// whose port must be known before they start.
//
// A port that the kernel chose (port 0) and that was closed again may be given
// to the next connection of any process. The ports of this package lie below the
// kernel's range, so that a server finds its port free, also after a restart.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// Linux gives outgoing connections the ports from 32768 on.
const (
	first = 10_000
	last  = 29_999
)

// Port returns a port on which no process listens on loopback.
func Port() (int, error) {
	for range 100 {
		port := first + rand.IntN(last-first+1)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return port, listener.Close()
		}
	}
	return 0, errors.New("no free port between 10000 and 30000 on loopback")
}

// Address returns 127.0.0.1 with such a port, as host:port.
func Address() (string, error) {
	port, err := Port()
	return fmt.Sprintf("127.0.0.1:%d", port), err
}
