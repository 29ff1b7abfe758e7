package parking

import (
	"net"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// BenchmarkRequest is a request and its answer over one connection: without a
// lot, with one, and parked before each. Processor time is the sender's too.
func BenchmarkRequest(b *testing.B) {
	for _, way := range []struct {
		name string
		wait time.Duration // 0: without a lot
	}{{"plain", 0}, {"kept", time.Hour}, {"parked", 1}} {
		b.Run(way.name, func(b *testing.B) {
			var h *host
			if way.wait == 0 {
				h = dialPlain(b)
			} else {
				h = open(b, Config{Wait: way.wait}, &http.Server{IdleTimeout: 2 * time.Hour}).dial(b)
			}
			body := strings.Repeat("x", 200)
			request := post(body)
			b.ReportAllocs()
			before := processorTime(b)
			for b.Loop() {
				h.send(b, request)
				h.hears(b, body)
			}
			b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/1000/float64(b.N), "cpu-us/op")
		})
	}
}

// dialPlain connects to a server without a lot.
func dialPlain(b *testing.B) *host {
	b.Helper()
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{IdleTimeout: time.Hour, Handler: http.HandlerFunc(echo)}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(port) }()
	b.Cleanup(func() {
		_ = server.Close()
		<-ended
	})
	return (&site{Lot: &Lot{port: port.(*net.TCPListener)}}).dial(b)
}

// processorTime is what this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkIdleConnection is the memory of a connection between two requests,
// its sender's end in this process included.
func BenchmarkIdleConnection(b *testing.B) {
	const count = 2000
	for name, wait := range map[string]time.Duration{"kept": time.Hour, "parked": 1} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s := open(b, Config{Wait: wait, Warm: count}, &http.Server{IdleTimeout: 2 * time.Hour})
				before := inUse()
				hosts := make([]*host, count)
				for i := range hosts {
					hosts[i] = s.dial(b)
					hosts[i].ask(b, "hello")
					hosts[i].answers = nil
				}
				if name == "parked" {
					s.parks(b, count)
				}
				b.ReportMetric((inUse()-before)/count, "B/connection")
				for _, h := range hosts {
					h.Close()
				}
			}
		})
	}
}

// inUse is what heap and stacks hold once garbage is collected.
func inUse() float64 {
	var m runtime.MemStats
	for range 3 { // stacks shrink by half at each
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}
