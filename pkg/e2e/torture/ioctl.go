//go:build linux

package main

import (
	"syscall"
	"unsafe"
)

// ioctl calls a device-specific function of the kernel.
func ioctl(fd, request uintptr, argument *uint32) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(unsafe.Pointer(argument))); errno != 0 {
		return errno
	}
	return nil
}
