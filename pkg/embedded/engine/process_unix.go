//go:build unix && !linux

package engine

import "syscall"

// childAttributes gives the child a process group of its own, so that a terminal
// does not signal it. The end of its control pipe tells it that the parent is
// gone.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
