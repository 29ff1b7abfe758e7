package e2e

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// idleTargets holds 10,000 connections as that many hosts would between two of
// their requests.
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
	t.add("10,000 idle kept-alive connections", "<= 100 MiB in ingest, no slowdown", most>>20 <= 100 && with <= before*1.25,
		"%d MiB in all at most, while they open; heap and stacks %.1f KiB a connection after a collection; %.1f us/request without them, %.1f with",
		most>>20, held, before, with)
	s.untilParked(b, connections)
	t.addReturns(s.returns(b, hosts[:connections/10]))
	for _, host := range hosts {
		host.Close()
	}
}

// addReturns adds a row of what it costs to have been idle.
func (t *table) addReturns(first, second []time.Duration) {
	slices.Sort(first)
	slices.Sort(second)
	part := func(took []time.Duration, percent int) float64 { return milliseconds(took[(len(took)-1)*percent/100]) }
	t.add("a connection's first request after its rest, one at a time", "as any other", part(first, 50) <= 2*part(second, 50),
		"p50 %.2f, p99 %.2f ms; the request after it %.2f, %.2f", part(first, 50), part(first, 99), part(second, 50), part(second, 99))
}

// returns sends two requests over each connection, one right after the other.
func (s *system) returns(b *testing.B, hosts []net.Conn) (first, second []time.Duration) {
	b.Helper()
	for i, host := range hosts {
		for _, took := range []*[]time.Duration{&first, &second} {
			began := time.Now()
			if err := s.greet(host); err != nil {
				b.Fatalf("connection %d: %v", i, err)
			}
			*took = append(*took, time.Since(began))
		}
	}
	return first, second
}

// idle opens connections, sends one log over each and keeps them open until
// all are parked. It gives the most memory that ingest had meanwhile, in bytes.
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
	most = s.untilParked(b, count)
	opening.Wait()
	return hosts, most
}

// untilParked waits until ingest has parked so many connections.
func (s *system) untilParked(b *testing.B, count int) (most int) {
	b.Helper()
	late := time.After(2 * time.Minute)
	for {
		most = max(most, resident(b, s.processes[0].command.Process.Pid))
		if int(s.metric(b, `logboom_ingest_connections{state="parked"}`)) >= count {
			return most
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-late:
			b.Fatalf("ingest has not parked %d connections", count)
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

// greet sends one log.
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

// live is what ingest's heap and stacks hold once garbage is collected, in bytes.
func (s *system) live(b *testing.B) float64 {
	b.Helper()
	for range 2 { // stacks shrink by half at each collection
		if _, err := try(http.MethodGet, s.ops["ingest"]+"/debug/pprof/heap?gc=1", nil, nil); err != nil {
			b.Fatal(err)
		}
	}
	return s.metric(b, "go_memstats_heap_alloc_bytes") + s.metric(b, "go_memstats_stack_inuse_bytes")
}

// metric is one of ingest's, with its labels.
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
