package freeport

import (
	"fmt"
	"net"
	"testing"
)

func TestPortIsFreeAndOutsideTheKernelsRange(t *testing.T) {
	t.Parallel()
	inUse := map[int]bool{}
	for range 300 {
		port, err := Port()
		if err != nil {
			t.Fatal(err)
		}
		if port < first || port > last {
			t.Fatalf("port %d is not between %d and %d", port, first, last)
		}
		if inUse[port] {
			t.Fatalf("port %d is not free", port)
		}
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue // another process was faster
		}
		defer listener.Close() // keeps the port in use, so that Port must not return it again
		inUse[port] = true
	}
	if len(inUse) < 200 {
		t.Errorf("only %d of 300 ports were free, want at least 200", len(inUse))
	}
}
