package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/token"
)

// sender is a project with a token.
type sender struct{ project, token string }

// gridProjectsSetting lists numbers of projects, separated by commas. Each is a
// column of the grid. Default "1,100,10000".
const gridProjectsSetting = "LOGBOOM_BENCH_PROJECTS"

// gridProcesses are the columns with the CPU time of each process.
var gridProcesses = []string{"engine", "ingest", "nats", "writer", "redis", "admin"}

// BenchmarkGrid measures CPU time per line by the number of records in a body and
// by the number of projects: the chart of docs/performance.md. The first request
// of a project is measured separately.
func BenchmarkGrid(b *testing.B) {
	s := separate(b, measured...)
	columns := gridProjects(b)
	began := time.Now()
	senders := s.enrol(b, columns[len(columns)-1])
	b.Logf("%d projects with a token each made in %s", len(senders), time.Since(began).Round(time.Millisecond))
	g := &grid{system: s}
	g.addFirst(b, senders)
	for _, size := range []struct{ records, requests int }{{1, 20_000}, {10, 20_000}, {100, 10_000}, {1000, 3000}} {
		made := bodies(b, size.records, max(1, 100_000/size.records), nativeForm)
		for _, n := range columns {
			g.addCell(b, senders[:n], made, size.requests, size.records)
		}
	}
	fmt.Printf("\nus of CPU time a line, all processes and the engine, merges settled; load average %s\n%s\n%s", machineLoad(b), &g.table, &g.chart)
}

// gridProjects returns the numbers of projects, the largest last.
func gridProjects(b *testing.B) []int {
	b.Helper()
	text := os.Getenv(gridProjectsSetting)
	if text == "" {
		text = "1,100,10000"
	}
	var columns []int
	for _, one := range strings.Split(text, ",") {
		n, err := strconv.Atoi(one)
		if err != nil || n < 1 || len(columns) > 0 && n <= columns[len(columns)-1] {
			b.Fatalf("%s=%s: give rising numbers with commas between them", gridProjectsSetting, text)
		}
		columns = append(columns, n)
	}
	return columns
}

// grid collects the measured cells.
type grid struct {
	*system
	table, chart strings.Builder
}

// addFirst measures the first request of each project, which looks its token up,
// leases its quotas and records the token's use.
func (g *grid) addFirst(b *testing.B, senders []sender) {
	b.Helper()
	fmt.Fprintf(&g.table, "| records a body | projects | all | %s |\n", strings.Join(gridProcesses, " | "))
	fmt.Fprintf(&g.table, "|---|---|---|%s\n", strings.Repeat("---|", len(gridProcesses)))
	m := g.shared(b, senders, bodies(b, 1, 1000, nativeForm), len(senders), 1)
	g.usesNoted(b, len(senders))
	g.addRow("the first of a project", len(senders), m.perRecord(b, len(senders)))
}

// usesNoted waits until the uses of that many tokens are recorded, or until no
// more are recorded.
func (g *grid) usesNoted(b *testing.B, projects int) {
	b.Helper()
	nc, js, err := stream.Connect(b.Context(), g.queue, stream.ConnectConfig{Name: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	uses, err := js.Stream(b.Context(), "KV_USES")
	if err != nil {
		b.Fatal(err)
	}
	const patience = 15 * time.Second // three times the pause between two writes of ingest
	for noted, since := uint64(0), time.Now(); time.Since(since) < patience; {
		info, err := uses.Info(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if info.State.Msgs >= uint64(projects) {
			return
		}
		if info.State.Msgs != noted {
			noted, since = info.State.Msgs, time.Now()
		}
		<-time.After(100 * time.Millisecond)
	}
}

// addCell measures one cell.
func (g *grid) addCell(b *testing.B, senders []sender, made [][]byte, requests, records int) {
	b.Helper()
	var used map[string]float64
	g.profiled(b, fmt.Sprintf("grid-%d-%d", records, len(senders)), func() {
		used = g.shared(b, senders, made, requests, records).perRecord(b, requests*records)
	})
	g.addRow(fmt.Sprint(records), len(senders), used)
	fmt.Fprintf(&g.chart, "%6d a body, %6d projects %8.2f  %s\n", records, len(senders), used["all"], bar(used["all"]))
}

func (g *grid) addRow(what string, projects int, used map[string]float64) {
	fmt.Fprintf(&g.table, "| %s | %d | %.2f |", what, projects, used["all"])
	for _, name := range gridProcesses {
		fmt.Fprintf(&g.table, " %.2f |", used[name])
	}
	g.table.WriteString("\n")
}

// bar draws a length on a logarithmic scale: four characters for each doubling.
func bar(us float64) string {
	n := 0
	for ; us > 1 && n < 60; us /= 1.189207 { // 2^(1/4)
		n++
	}
	return strings.Repeat("#", n)
}

// shared sends the bodies for the senders in turn. The tables are empty, so that
// merges of earlier loads are not measured. Senders are chosen with a stride, so
// that even a few requests belong to many projects.
func (s *system) shared(b *testing.B, senders []sender, made [][]byte, requests, records int) *measurement {
	b.Helper()
	const stride = 7919 // a prime, so that each sender is chosen
	for _, table := range []string{"logs", "usage"} {
		s.execute(b, "TRUNCATE TABLE "+table)
	}
	m := s.measure(b)
	load{address: s.host(), connections: 16, count: requests, request: func(dst []byte, i int) []byte {
		from := senders[i*stride%len(senders)]
		return appendRequest(dst, "/v1/logs/"+from.project, from.token, made[i%len(made)])
	}}.run(b.Context(), b)
	s.drained(b, m, uint64(requests*records))
	return m
}

// execute runs a statement in ClickHouse and discards its result.
func (s *system) execute(b *testing.B, statement string) {
	b.Helper()
	address, err := url.Parse(s.tables)
	if err != nil {
		b.Fatal(err)
	}
	address.RawQuery = url.Values{"database": {strings.Trim(address.Path, "/")}}.Encode()
	address.Path = "/"
	response, err := http.Post(address.String(), "text/plain", strings.NewReader(statement))
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	if content, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK {
		b.Fatalf("%s: answer %d: %s: %v", statement, response.StatusCode, content, err)
	}
}

// enrol creates projects with one token each.
func (s *system) enrol(b *testing.B, count int) []sender {
	b.Helper()
	nc, js, err := stream.Connect(b.Context(), s.queue, stream.ConnectConfig{Name: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	projects, err := project.Open(b.Context(), js, project.Config{})
	if err != nil {
		b.Fatal(err)
	}
	tokens, err := token.Open(b.Context(), js, projects, 1)
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
				if _, err := projects.CreateProject(b.Context(), name); err != nil {
					b.Errorf("project %s: %v", name, err)
					return
				}
				_, value, err := tokens.CreateToken(b.Context(), name, "bench")
				if err != nil {
					b.Errorf("token of %s: %v", name, err)
					return
				}
				senders[i] = sender{name, value.Reveal()}
			}
		})
	}
	enrolling.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return senders
}
