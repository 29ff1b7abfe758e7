package streamtest

import (
	"os"
	"syscall"
	"testing"
)

// ReservePort returns a loopback port for a server that restarts, or that must know
// its port before it starts. The port is reserved until the test ends by a socket
// that is bound to it but never listens: Linux then gives the port to no other
// connection, but lets a server listen on it, because both sockets allow the address
// to be reused.
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
