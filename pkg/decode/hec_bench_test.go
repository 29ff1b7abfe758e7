package decode

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/logboom/logboom/pkg/record"
)

// corpusLines are lines as programs write them: those of the *.log files in the
// folder LOGBOOM_CORPUS, or made ones.
func corpusLines(tb testing.TB, n int) []string {
	tb.Helper()
	folder := os.Getenv("LOGBOOM_CORPUS")
	if folder == "" {
		return benchLines(n, 150, false)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.log"))
	if err != nil || len(files) == 0 {
		tb.Fatalf("LOGBOOM_CORPUS: no *.log in %q (%v)", folder, err)
	}
	var lines []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		lines = append(lines, strings.Split(strings.TrimSpace(string(content)), "\n")...)
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	for len(lines) < n {
		lines = append(lines, lines...)
	}
	return lines[:n]
}

// dockerBody is lines as Docker sends them.
func dockerBody(tb testing.TB, lines []string) []byte {
	tb.Helper()
	var body bytes.Buffer
	for i, line := range lines {
		text, err := json.Marshal(strings.TrimRight(line, "\r"))
		if err != nil {
			tb.Fatal(err)
		}
		fmt.Fprintf(&body, `{"event":{"line":%s,"source":"stdout","tag":"api"},"time":"1767319445.%06d","host":"node-1"}`, text, i)
	}
	return body.Bytes()
}

// BenchmarkHEC decodes a body of Docker's, after it was read.
func BenchmarkHEC(b *testing.B) {
	const rows = 1000
	body := dockerBody(b, corpusLines(b, rows))
	d, emit := NewDecoder(DefaultLimits()), func(*record.Log) {}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if r := d.HEC(body, defaults(), emit); r.Accepted != rows {
			b.Fatalf("%+v", r)
		}
	}
	perRow(b, rows)
}

// BenchmarkHECRead reads and decodes such a body, plain and compressed.
func BenchmarkHECRead(b *testing.B) {
	const rows = 1000
	body := dockerBody(b, corpusLines(b, rows))
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(body); err != nil {
		b.Fatal(err)
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	for encoding, sent := range map[string][]byte{"identity": body, "gzip": packed.Bytes()} {
		b.Run("encoding="+encoding, func(b *testing.B) {
			d, emit, r := NewDecoder(DefaultLimits()), func(*record.Log) {}, bytes.NewReader(nil)
			var dst []byte
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				r.Reset(sent)
				var err error
				if dst, err = d.ReadBody(dst[:0], r, encoding); err != nil {
					b.Fatal(err)
				}
				d.HEC(dst, defaults(), emit)
			}
			perRow(b, rows)
		})
	}
}

func BenchmarkRaw(b *testing.B) {
	const rows = 1000
	body := []byte(strings.Join(corpusLines(b, rows), "\n"))
	d, emit := NewDecoder(DefaultLimits()), func(*record.Log) {}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		d.Raw(body, defaults(), Origin{Host: "h"}, emit)
	}
	perRow(b, rows)
}

func BenchmarkLineSeverity(b *testing.B) {
	finder := levelFinder{scan: scanner{depth: 64, textLimit: jsonWithin}}
	for name, line := range map[string]string{
		"json":   `{"ts":1767319445,"caller":"main.go:7","level":"info","msg":"started","port":8080}`,
		"logfmt": `ts=2026-01-02T03:04:05Z caller=main.go:7 level=info msg=started port=8080`,
		"word":   "2026-01-02 03:04:05,678 INFO  [main] com.example.App: started on port 8080",
		"none":   "connection from 10.0.0.1 port 22 closed after 30 s by the other side, 17 packets",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				finder.severity(line)
			}
		})
	}
}
