package streamtest

import (
	"os"
	"syscall"
	"testing"
)

// ReservePort returns a port of loopback for a server that stops and comes back, or
// that must know it before it starts. It is held until the test ends: Linux gives
// a port to no connection, and to nobody who asks for a free one, while a socket
// is bound to it; and it lets a server listen there, because neither socket minds
// the address to be used again and this one never listens.
func ReservePort(tb testing.TB) int {
	tb.Helper()
	loopback := &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		tb.Fatal(os.NewSyscallError("socket", err))
	}
	tb.Cleanup(func() { _ = syscall.Close(socket) })
	syscall.CloseOnExec(socket)
	if err := syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		tb.Fatal(os.NewSyscallError("setsockopt", err))
	}
	if err := syscall.Bind(socket, loopback); err != nil {
		tb.Fatal(os.NewSyscallError("bind", err))
	}
	name, err := syscall.Getsockname(socket)
	if err != nil {
		tb.Fatal(os.NewSyscallError("getsockname", err))
	}
	return name.(*syscall.SockaddrInet4).Port
}
