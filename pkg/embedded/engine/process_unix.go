//go:build unix && !linux

package engine

import "syscall"

// childAttributes keeps a terminal's signals from the child. That the parent
// died it learns from the end of its control pipe.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
