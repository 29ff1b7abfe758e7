package freeport

import (
	"fmt"
	"net"
	"testing"
)

func TestPortIsFreeAndNoneThatTheKernelGives(t *testing.T) {
	t.Parallel()
	held := map[int]bool{}
	for range 300 {
		port, err := Port()
		if err != nil {
			t.Fatal(err)
		}
		if port < first || port > last {
			t.Fatalf("port %d is not between %d and %d", port, first, last)
		}
		if held[port] {
			t.Fatalf("port %d is not free", port)
		}
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue // another process was faster
		}
		defer listener.Close() // held, so that it is not found again
		held[port] = true
	}
	if len(held) < 200 {
		t.Errorf("of 300 ports only %d were free", len(held))
	}
}
