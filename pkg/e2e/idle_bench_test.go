package e2e

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// idleTargets keeps 10,000 connections open, as that many hosts do between two
// requests.
func idleTargets(b *testing.B, t *table) {
	const connections, requests = 10_000, 50_000
	s := separate(b, measured...)
	single := load{address: s.host(), connections: 64, count: requests, request: kinds["single"].requests(b, s)}
	speed := func() float64 {
		m := s.measure(b)
		single.run(b.Context(), b)
		return m.perRecord(b, requests)["ingest"]
	}
	speed()
	before, empty := speed(), s.live(b)
	hosts, most := s.idle(b, connections)
	held := (s.live(b) - empty) / connections / 1024
	with := speed()
	t.add("10,000 idle kept-alive connections", "<= 24 KiB each, no slowdown", held <= 24 && with <= before*1.25,
		"%d MiB of memory in all at most, while they open; heap and stacks %.1f KiB a connection after a collection; %.1f us/request without them, %.1f with",
		most>>20, held, before, with)
	for _, host := range hosts {
		host.Close()
	}
}

// idle opens count connections, sends one log over each and keeps them open. It
// also returns the largest memory that ingest used during that, in bytes.
func (s *system) idle(b *testing.B, count int) (hosts []net.Conn, most int) {
	b.Helper()
	hosts = make([]net.Conn, count)
	var opening sync.WaitGroup
	for worker := range 64 {
		opening.Go(func() {
			for i := worker; i < count; i += 64 {
				if err := s.open(&hosts[i]); err != nil {
					b.Errorf("connection %d: %v", i, err)
					return
				}
			}
		})
	}
	opened := make(chan struct{})
	go func() { opening.Wait(); close(opened) }()
	for {
		most = max(most, resident(b, s.processes[0].command.Process.Pid))
		select {
		case <-opened:
			return hosts, most
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *system) open(host *net.Conn) error {
	connection, err := net.Dial("tcp", s.host())
	if err != nil {
		return err
	}
	*host = connection
	return s.greet(connection)
}

// greet sends one log over a connection.
func (s *system) greet(host net.Conn) error {
	if _, err := host.Write(appendRequest(nil, "/v1/logs/"+s.project, s.token, []byte(`{"data":"here I am"}`))); err != nil {
		return err
	}
	answer := make([]byte, 512)
	n, err := host.Read(answer)
	if err != nil {
		return err
	}
	if !bytes.Contains(answer[:n], []byte(http.StatusText(http.StatusAccepted))) {
		return fmt.Errorf("answer %q", answer[:n])
	}
	return nil
}

// live returns the bytes of ingest's heap and stacks after a garbage collection.
func (s *system) live(b *testing.B) float64 {
	b.Helper()
	for range 2 { // stacks shrink by half at each collection
		if _, err := try(http.MethodGet, s.ops["ingest"]+"/debug/pprof/heap?gc=1", nil, nil); err != nil {
			b.Fatal(err)
		}
	}
	return s.metric(b, "go_memstats_heap_alloc_bytes") + s.metric(b, "go_memstats_stack_inuse_bytes")
}

// metric returns the value of a metric of ingest, named with its labels.
func (s *system) metric(b *testing.B, name string) float64 {
	b.Helper()
	a, err := try(http.MethodGet, s.ops["ingest"]+"/metrics", nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	_, rest, found := strings.Cut(string(a.body), "\n"+name+" ")
	var value float64
	if _, err := fmt.Sscan(rest, &value); !found || err != nil {
		b.Fatalf("no metric %s (%v)", name, err)
	}
	return value
}
