package freeport

import (
	"fmt"
	"net"
	"testing"
)

func TestPortIsFreeAndNoneThatTheKernelGives(t *testing.T) {
	t.Parallel()
	for range 100 {
		port, err := Port()
		if err != nil {
			t.Fatal(err)
		}
		if port < first || port > last {
			t.Fatalf("port %d is not between %d and %d", port, first, last)
		}
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatalf("port %d is not free: %v", port, err)
		}
		defer listener.Close() // held, so that it is not found again
	}
}
