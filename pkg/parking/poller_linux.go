package parking

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const canPark = true

// poller is an epoll set. It is watched by the runtime's own, as any file: who
// waits for it costs a goroutine and no thread, and deadlines work.
type poller struct {
	fd   int
	file *os.File
	raw  syscall.RawConn
	got  [128]unix.EpollEvent
	out  [128]event // what wait gives away, until it is called again
}

func newPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // or the runtime would not watch it
		return nil, errors.Join(fmt.Errorf("epoll: %w", err), unix.Close(fd))
	}
	file := os.NewFile(uintptr(fd), "epoll")
	raw, err := file.SyscallConn()
	if err := errors.Join(err, file.SetReadDeadline(time.Time{})); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &poller{fd: fd, file: file, raw: raw}, nil
}

// watch has wait tell of the socket by this id, as long as there is something
// to tell.
func (p *poller) watch(tcp *net.TCPConn, id uint64) error {
	return p.control(tcp, unix.EPOLL_CTL_ADD, &unix.EpollEvent{
		Events: unix.EPOLLIN | unix.EPOLLRDHUP, Fd: int32(id), Pad: int32(id >> 32), // both are the kernel's 64 bits of user data
	})
}

// forget ends watch.
func (p *poller) forget(tcp *net.TCPConn) {
	_ = p.control(tcp, unix.EPOLL_CTL_DEL, nil) // a socket that is open and in the set can be taken out
}

func (p *poller) control(tcp *net.TCPConn, operation int, event *unix.EpollEvent) error {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = unix.EpollCtl(p.fd, operation, int(fd), event) })
	return errors.Join(err, failed)
}

// wakeAt has wait end with os.ErrDeadlineExceeded then; zero: never.
func (p *poller) wakeAt(t time.Time) error { return p.file.SetReadDeadline(t) }

// wait gives what happened, which is one event or more.
func (p *poller) wait() ([]event, error) {
	n, failed := 0, error(nil)
	err := p.raw.Read(func(fd uintptr) bool {
		for {
			n, failed = unix.EpollWait(int(fd), p.got[:], 0)
			if !errors.Is(failed, unix.EINTR) {
				return n != 0
			}
		}
	})
	if err != nil || failed != nil {
		return nil, errors.Join(err, failed)
	}
	for i, e := range p.got[:n] {
		p.out[i] = event{id: uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32, ended: e.Events != unix.EPOLLIN}
	}
	return p.out[:n], nil
}

func (p *poller) close() error { return p.file.Close() }

// readable tells whether there is a byte to read before the end.
func readable(tcp *net.TCPConn) bool {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	err = raw.Control(func(fd uintptr) {
		n, _, _ = unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT) // an error is an end too
	})
	return err == nil && n > 0
}
