//go:build !linux

package redistest

import "syscall"

// dieWithParent works on Linux only. Elsewhere a killed test leaves its server
// behind.
func dieWithParent() *syscall.SysProcAttr { return nil }
