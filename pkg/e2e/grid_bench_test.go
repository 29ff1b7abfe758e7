package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/stream"
)

// sender is a project and a token of it.
type sender struct{ project, token string }

// BenchmarkGrid is CPU time a line over the records in a body and the projects
// that send, each in turn: the chart of docs/performance.md.
func BenchmarkGrid(b *testing.B) {
	s := separate(b, measured...)
	senders := s.enrol(b, 10_000)
	projects := []int{1, 100, 10_000}
	rows := [][]string{{"records a body"}}
	for _, n := range projects {
		rows[0] = append(rows[0], fmt.Sprintf("projects %d", n))
	}
	for _, size := range []struct{ records, requests int }{{1, 40_000}, {10, 30_000}, {100, 10_000}, {1000, 1000}} {
		made := bodies(b, size.records, 100_000/size.records, nativeForm)
		row := []string{fmt.Sprint(size.records)}
		for _, n := range projects {
			used := s.shared(b, senders[:n], made, size.requests, size.records)
			row = append(row, fmt.Sprintf("%.2f (ingest %.2f)", used["all"], used["ingest"]))
		}
		rows = append(rows, row)
	}
	var text strings.Builder
	for _, row := range rows {
		fmt.Fprintf(&text, "| %s |\n", strings.Join(row, " | "))
	}
	b.Logf("us of CPU time a line, all processes and the engine, merges settled; load average %s\n%s", machineLoad(b), &text)
}

// shared sends the bodies in the senders' names, one after the other. Senders
// are taken with a stride, so that few requests still are of many projects.
func (s *system) shared(b *testing.B, senders []sender, made [][]byte, requests, records int) map[string]float64 {
	b.Helper()
	const stride = 7919 // a prime: every sender has its turn
	stored := s.ask(b, "SELECT count() FROM logs")
	m := s.measure(b)
	load{address: s.host(), connections: 16, count: requests, request: func(dst []byte, i int) []byte {
		from := senders[i*stride%len(senders)]
		return appendRequest(dst, "/v1/logs/"+from.project, from.token, made[i%len(made)])
	}}.run(b.Context(), b)
	s.drained(b, m, stored+uint64(requests*records))
	return m.perRecord(b, requests*records)
}

// enrol makes so many projects with a token each.
func (s *system) enrol(b *testing.B, count int) []sender {
	b.Helper()
	nc, js, err := stream.Connect(b.Context(), s.queue, stream.ConnectConfig{Name: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	store, err := project.Open(b.Context(), js, project.StoreConfig{})
	if err != nil {
		b.Fatal(err)
	}
	senders := make([]sender, count)
	const workers = 16
	var enrolling sync.WaitGroup
	for worker := range workers {
		enrolling.Go(func() {
			for i := worker; i < count; i += workers {
				name := fmt.Sprintf("project-%d", i)
				if _, err := store.CreateProject(b.Context(), name); err != nil {
					b.Errorf("project %s: %v", name, err)
					return
				}
				_, token, err := store.CreateToken(b.Context(), name, "bench")
				if err != nil {
					b.Errorf("token of %s: %v", name, err)
					return
				}
				senders[i] = sender{name, token.Reveal()}
			}
		})
	}
	enrolling.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return senders
}
