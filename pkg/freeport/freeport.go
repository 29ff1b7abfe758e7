// Package freeport finds ports for servers of tests and of the torture harness
// that have to know theirs before they start.
//
// Port 0 would do where the server itself could tell afterwards. What a newcomer
// would get wrong: a port that the kernel picked and that was closed again may
// be given to the next connection of any process. These lie below the range of
// which the kernel gives, so that a server finds its port free, and finds it so
// again after it was down.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// Linux gives connections the ports from 32768 on.
const (
	first = 10_000
	last  = 29_999
)

// Port is one on which nobody listens on loopback.
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

// Address is such a port with loopback's address, as host:port.
func Address() (string, error) {
	port, err := Port()
	return fmt.Sprintf("127.0.0.1:%d", port), err
}
