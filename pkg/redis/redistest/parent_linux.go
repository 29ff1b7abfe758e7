package redistest

import "syscall"

// dieWithParent has the kernel kill the server when the test's process is
// killed and can clean up no more.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
