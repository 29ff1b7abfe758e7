// Command chatty is the program inside the tests' containers: it prints
// numbered lines until it has printed enough or is told to stop.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	count := flag.Int("lines", 0, "lines to print; 0: until stopped")
	every := flag.Duration("every", 0, "pause after a line")
	long := flag.Int("long", 0, "number of the one long line")
	size := flag.Int("long-bytes", 40<<10, "bytes of the long line")
	asJSON := flag.Bool("json", false, "print objects with a message and a level")
	stderrEvery := flag.Int("stderr-every", 10, "of so many lines the last goes to stderr; 0: none")
	flag.Parse()
	stop := make(chan os.Signal, 1) // one: the first is enough
	signal.Notify(stop, syscall.SIGTERM)
	for n := 1; *count == 0 || n <= *count; n++ {
		text := fmt.Sprintf("line %08d", n)
		if n == *long {
			text += " " + strings.Repeat("0123456789abcdef", *size/16)
		}
		show(text, *stderrEvery > 0 && n%*stderrEvery == 0, *asJSON)
		select {
		case <-stop:
			return
		case <-time.After(*every):
		}
	}
}

// show prints a line to stdout or to stderr.
func show(text string, toStderr, asJSON bool) {
	if asJSON {
		text = fmt.Sprintf(`{"level":"warn","message":%q}`, text)
	}
	to := os.Stdout
	if toStderr {
		to = os.Stderr
	}
	fmt.Fprintln(to, text)
}
