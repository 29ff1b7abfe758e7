package redistest

import "syscall"

// dieWithParent makes the kernel kill the server when the test's process is
// killed and cannot clean up.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
