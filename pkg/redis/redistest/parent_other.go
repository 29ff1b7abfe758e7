//go:build !linux

package redistest

import "syscall"

// dieWithParent is Linux's; elsewhere a killed test leaves its server behind.
func dieWithParent() *syscall.SysProcAttr { return nil }
