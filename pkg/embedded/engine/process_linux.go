package engine

import "syscall"

// childAttributes makes the kernel kill the child when the parent ends. The
// child gets a process group of its own, so a terminal does not signal it.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
