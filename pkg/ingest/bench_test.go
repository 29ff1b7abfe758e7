package ingest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/stream"
)

// benchLines returns lines as programs write them: those of the *.log files in the
// folder LOGBOOM_CORPUS, or generated ones.
func benchLines(b *testing.B, n int) []string {
	b.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	var lines []string
	folder := os.Getenv("LOGBOOM_CORPUS")
	if folder == "" {
		for range n {
			lines = append(lines, fmt.Sprintf("2026-03-01 12:00:00,%03d INFO [pool-%d] com.example.Handler: request %08x took %d ms", random.IntN(1000), random.IntN(9), random.Uint32(), random.IntN(5000)))
		}
		return lines
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.log"))
	if err != nil || len(files) == 0 {
		b.Fatalf("LOGBOOM_CORPUS: no *.log in %q (%v)", folder, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			b.Fatal(err)
		}
		lines = append(lines, strings.Split(strings.TrimSpace(string(content)), "\n")...)
	}
	random.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	return lines[:n]
}

// forms return a body of n lines that differs each time, because a repeated body
// would be stored once.
var forms = map[string]func(b *testing.B, lines []string) func(i int) []byte{
	"hec/plain": func(b *testing.B, lines []string) func(int) []byte {
		body := hecBody(b, lines)
		return func(i int) []byte { return append(body[:len(body):len(body)], lastEvent(i)...) }
	},
	"hec/gzip": func(b *testing.B, lines []string) func(int) []byte {
		w := gzip.NewWriter(nil)
		body := packed(b, w, hecBody(b, lines))
		return func(i int) []byte { return append(body[:len(body):len(body)], packed(b, w, lastEvent(i))...) }
	},
	"native": func(b *testing.B, lines []string) func(int) []byte {
		body := nativeBody(b, lines)
		return func(int) []byte { return body }
	},
}

func hecBody(b *testing.B, lines []string) []byte {
	b.Helper()
	var body bytes.Buffer
	for i, line := range lines[:len(lines)-1] {
		text, err := json.Marshal(strings.TrimRight(line, "\r"))
		if err != nil {
			b.Fatal(err)
		}
		fmt.Fprintf(&body, `{"event":{"line":%s,"source":"stdout","tag":"api"},"time":"%d.%06d","host":"node-1"}`, text, time.Now().Unix(), i)
	}
	return body.Bytes()
}

func lastEvent(i int) []byte { return fmt.Appendf(nil, `{"event":"request %d"}`, i) }

func nativeBody(b *testing.B, lines []string) []byte {
	b.Helper()
	var body bytes.Buffer
	for _, line := range lines {
		text, err := json.Marshal(line)
		if err != nil {
			b.Fatal(err)
		}
		fmt.Fprintf(&body, "{\"data\":%s,\"application\":\"api\"}\n", text)
	}
	return body.Bytes()
}

func packed(b *testing.B, w *gzip.Writer, body []byte) []byte {
	b.Helper()
	var out bytes.Buffer
	w.Reset(&out)
	if _, err := w.Write(body); err != nil {
		b.Fatal(err)
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	return out.Bytes()
}

// BenchmarkIntake is a body of 1000 lines from its first byte to the queue's
// acknowledgement. cpu-ns/line is the time of all threads of the process, including
// the queue.
func BenchmarkIntake(b *testing.B) {
	const rows = 1000
	for name, form := range forms {
		b.Run(name, func(b *testing.B) {
			bench := newBench(b, stream.Config{MaxBytes: 512 << 20})
			body := form(b, benchLines(b, rows))
			began, i := cpuTime(b), 0
			b.ReportAllocs()
			for b.Loop() {
				i++
				if answer := bench.intake(name, body(i)); answer != http.StatusOK && answer != http.StatusAccepted {
					b.Fatalf("answer %d", answer)
				}
			}
			b.ReportMetric(float64(cpuTime(b)-began)/float64(i)/rows, "cpu-ns/line")
		})
	}
}

// intake posts a body without a network between.
func (b *bench) intake(form string, body []byte) int {
	path := hecPath
	if form == "native" {
		path = "/v1/logs/shop"
	}
	request := httptest.NewRequest(http.MethodPost, path, io.NopCloser(bytes.NewReader(body)))
	request.Header.Set("Authorization", "Bearer "+b.token)
	if strings.HasSuffix(form, "gzip") {
		request.Header.Set("Content-Encoding", "gzip")
	}
	answer := httptest.NewRecorder()
	b.server.ServeHTTP(answer, request)
	return answer.Code
}

// cpuTime returns what the process has used so far, in its own code and the kernel.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
