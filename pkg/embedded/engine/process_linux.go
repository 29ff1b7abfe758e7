package engine

import "syscall"

// childAttributes makes the kernel kill the child when the parent dies, and
// keeps a terminal's signals from it.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
