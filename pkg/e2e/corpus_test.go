package e2e

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// corpusSetting names a folder of *.log files. Each line is a log, and the file's
// name is its application.
const corpusSetting = "LOGBOOM_CORPUS"

// corpus returns lines by application: real ones if corpusSetting is set, else generated ones.
func corpus(t testing.TB) map[string][]string {
	t.Helper()
	folder := os.Getenv(corpusSetting)
	if folder == "" {
		return madeLines()
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.log"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no *.log in %q (%v)", corpusSetting, folder, err)
	}
	lines := map[string][]string{}
	for _, file := range files {
		lines[strings.TrimSuffix(filepath.Base(file), ".log")] = readLines(t, file)
	}
	return lines
}

func readLines(t testing.TB, file string) []string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var lines []string
	scanner := bufio.NewScanner(f)
	for scanner.Scan() {
		lines = append(lines, scanner.Text())
	}
	if err := scanner.Err(); err != nil {
		t.Fatal(err)
	}
	return lines
}

// madeLines generates lines like those of services, with unusual ones among them.
func madeLines() map[string][]string {
	random := rand.New(rand.NewPCG(1, 2))
	odd := []string{
		"", " ", "\ttab and \"quotes\" and \\ backslash", "Grüße aus Köln ✓ 日本語 🚀", "\x1b[31mred\x1b[0m", "a\nstack\n\tat main()",
		"nul \x00 inside", "</script><b>", "' OR 1=1 --", strings.Repeat("long ", 3000), "\u2028 separators \u202e", "{\"json\": \"inside\"}",
	}
	lines := map[string][]string{"odd": odd}
	words := []string{"accepted", "refused", "timeout", "retrying", "closed", "opened", "committed", "evicted"}
	for _, application := range []string{"gateway", "billing", "worker"} {
		for i := range 2000 {
			lines[application] = append(lines[application], fmt.Sprintf(
				"2026-03-01 12:%02d:%02d,%03d %-5s [pool-%d-thread-%d] com.example.%s.Handler: request %08x %s in %d ms from 10.%d.%d.%d",
				i/60%60, i%60, random.IntN(1000), []string{"INFO", "WARN", "ERROR", "DEBUG"}[random.IntN(4)], random.IntN(4), random.IntN(32),
				application, random.Uint32(), words[random.IntN(len(words))], random.IntN(5000), random.IntN(256), random.IntN(256), random.IntN(256)))
		}
	}
	return lines
}
