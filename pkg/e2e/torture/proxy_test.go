//go:build linux

package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// echo starts a server that answers with what it receives.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			served.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn) // ends with the connection, and that with the proxy
			})
		}
	})
	t.Cleanup(func() { listener.Close(); served.Wait() })
	return listener.Addr().String()
}

// through returns a proxy before an echo, running until the test ends.
func through(t *testing.T) *proxy {
	t.Helper()
	p, err := listenProxy("test", echo(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1) // one: run returns once
	go func() { done <- p.run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return p
}

// line sends a line and returns the answer within the time, or an empty string.
func line(t *testing.T, conn net.Conn, text string, within time.Duration) string {
	t.Helper()
	if _, err := io.WriteString(conn, text+"\n"); err != nil {
		return ""
	}
	if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	got, _ := bufio.NewReader(conn).ReadString('\n') // an error is no answer
	return got
}

func dial(t *testing.T, p *proxy) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", p.addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

const (
	soon = 100 * time.Millisecond // for what must not come
	late = 60 * time.Second       // for what must come
)

func TestStalledBytesArriveOnceTheyFlow(t *testing.T) {
	t.Parallel()
	p := through(t)
	conn := dial(t, p)
	if got := line(t, conn, "a", late); got != "a\n" {
		t.Fatalf("flowing: %q", got)
	}
	p.set(stalled)
	if got := line(t, conn, "b", soon); got != "" {
		t.Fatalf("stalled: %q", got)
	}
	p.set(flowing)
	if got := line(t, conn, "c", late); got != "b\n" {
		t.Fatalf("flowing again: %q", got)
	}
}

func TestMutedAnswersNeverArrive(t *testing.T) {
	t.Parallel()
	p := through(t)
	conn := dial(t, p)
	if got := line(t, conn, "a", late); got != "a\n" {
		t.Fatalf("flowing: %q", got)
	}
	p.set(muted)
	if got := line(t, conn, "b", soon); got != "" {
		t.Fatalf("muted: %q", got)
	}
	p.set(flowing)
	if got := line(t, conn, "c", late); got != "" {
		t.Errorf("the connection still works: %q", got)
	}
	if got := line(t, dial(t, p), "d", late); got != "d\n" {
		t.Errorf("a new connection: %q", got)
	}
}

func TestFunctionIsCalledInTheMiddleOfARequest(t *testing.T) {
	t.Parallel()
	p := through(t)
	conn := dial(t, p)
	burnt := make(chan int, 1) // one: it is called once
	p.after(4, func() { burnt <- p.reset() })
	if got := line(t, conn, "a", late); got != "a\n" {
		t.Fatalf("before the call: %q", got)
	}
	if got := line(t, conn, "bcd", late); got != "" {
		t.Fatalf("after the call: %q", got)
	}
	if n := <-burnt; n != 1 {
		t.Errorf("%d connections were reset", n)
	}
	if got := line(t, dial(t, p), "long enough for another fuse", late); got == "" {
		t.Error("it was called twice")
	}
}
