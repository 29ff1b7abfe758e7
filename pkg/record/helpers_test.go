package record

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// realisticLines returns n lines like those of a web service.
func realisticLines(n int) []string {
	rng := rand.New(rand.NewPCG(1, 2))
	methods := []string{"GET", "POST", "PUT"}
	paths := []string{"/v2/servers/detail", "/api/orders", "/healthz", "/v1/users/session"}
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	lines := make([]string, n)
	for i := range lines {
		start = start.Add(time.Duration(rng.IntN(900)) * time.Millisecond)
		lines[i] = fmt.Sprintf("%s INFO api.server [req-%016x%016x] 10.11.%d.%d \"%s %s?page=%d\" status: %d len: %d time: %.7f",
			start.Format("2006-01-02 15:04:05.000"), rng.Uint64(), rng.Uint64(), rng.IntN(16), rng.IntN(250),
			methods[rng.IntN(3)], paths[rng.IntN(4)], rng.IntN(90), 200+rng.IntN(3), rng.IntN(9000), rng.Float64())
	}
	return lines
}

// corpus returns the lines of the .log files in the folder LOGBOOM_CORPUS, by file,
// or generated lines where it is not set.
func corpus(tb testing.TB) map[string][]string {
	tb.Helper()
	dir := os.Getenv("LOGBOOM_CORPUS")
	if dir == "" {
		return map[string][]string{"made": realisticLines(2000)}
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(paths) == 0 {
		tb.Fatalf("LOGBOOM_CORPUS=%s: no .log files there (%v)", dir, err)
	}
	files := make(map[string][]string, len(paths))
	for _, path := range paths {
		files[strings.TrimSuffix(filepath.Base(path), ".log")] = linesOf(tb, path)
	}
	return files
}

func linesOf(tb testing.TB, path string) []string {
	tb.Helper()
	f, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	var lines []string
	for s := bufio.NewScanner(f); s.Scan(); {
		lines = append(lines, s.Text())
	}
	return lines
}

func logBatch(logs ...Log) *Batch {
	b := new(Batch)
	b.Reset(KindLog, "01JPROJECT", 30)
	for i := range logs {
		b.AppendLog(&logs[i])
	}
	return b
}

func eventBatch(events ...Event) *Batch {
	b := new(Batch)
	b.Reset(KindEvent, "01JPROJECT", 7)
	for i := range events {
		b.AppendEvent(&events[i])
	}
	return b
}

func dropBatch(drops ...Drop) *Batch {
	b := new(Batch)
	b.Reset(KindDrop, "01JPROJECT", 30)
	for i := range drops {
		b.AppendDrop(&drops[i])
	}
	return b
}

// section returns a body with a prefix of the right size and check.
func section(kind Kind, codec byte, body []byte) []byte {
	s := []byte{sectionVersion, byte(kind), codec}
	s = binary.LittleEndian.AppendUint32(s, uint32(len(body)))
	s = append(s, 0, 0, 0, 0)
	s = append(s, body...)
	binary.LittleEndian.PutUint32(s[checkOffset:], check(s))
	return s
}

// header returns the start of a body, for project "p" and 30 days.
func header(rows, raw uint64) []byte {
	h := []byte{1, 'p', 30, 0}
	return binary.AppendUvarint(binary.AppendUvarint(h, rows), raw)
}

// contents is a copy of everything in a message.
type contents struct {
	projects  []string
	retention []uint16
	logs      []Log
	events    []Event
	drops     []Drop
}

// readAll reads a message to its end.
func readAll(message []byte) (contents, error) {
	var out contents
	var r Reader
	r.Reset(message)
	for {
		s, err := r.NextSection()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out.projects = append(out.projects, strings.Clone(s.Project))
		out.retention = append(out.retention, s.RetentionDays)
		if err := out.readRows(s); err != nil {
			return out, err
		}
	}
}

func (c *contents) readRows(s *Section) error {
	var l Log
	var e Event
	var d Drop
	for {
		var ok bool
		var err error
		switch s.Kind {
		case KindLog:
			ok, err = s.NextLog(&l)
		case KindDrop:
			ok, err = s.NextDrop(&d)
		default:
			ok, err = s.NextEvent(&e)
		}
		switch {
		case err != nil || !ok:
			return err
		case s.Kind == KindLog:
			c.logs = append(c.logs, cloneLog(l))
		case s.Kind == KindDrop:
			c.drops = append(c.drops, Drop{d.Time, strings.Clone(d.Reason), d.Records, d.Bytes})
		default:
			c.events = append(c.events, cloneEvent(e))
		}
	}
}

func cloneLog(l Log) Log {
	l.Application = strings.Clone(l.Application)
	l.Severity = strings.Clone(l.Severity)
	l.Data = strings.Clone(l.Data)
	l.Host = strings.Clone(l.Host)
	l.Source = strings.Clone(l.Source)
	l.Metadata = clonePairs(l.Metadata)
	return l
}

func cloneEvent(e Event) Event {
	e.Channel = strings.Clone(e.Channel)
	e.Title = strings.Clone(e.Title)
	e.Description = strings.Clone(e.Description)
	e.Icon = strings.Clone(e.Icon)
	e.Tags = clonePairs(e.Tags)
	return e
}

// clonePairs returns nil for no pairs, so that rows compare with DeepEqual.
func clonePairs(pairs []Pair) []Pair {
	var out []Pair
	for _, p := range pairs {
		out = append(out, Pair{strings.Clone(p.Key), strings.Clone(p.Value)})
	}
	return out
}
