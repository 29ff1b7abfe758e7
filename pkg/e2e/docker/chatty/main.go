// Command chatty is the program inside the tests' containers: it prints
// numbered lines until it is told to stop.
//
// Where it is asked for a number of lines, it keeps the last one until it is
// told. What a newcomer would get wrong: a container that just ends may lose
// lines, because Docker reads what one has printed for two seconds after its
// end and no longer, which is little on a busy machine.
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
	count := flag.Int("lines", 0, "lines to print, the last of them when stopped; 0: until stopped")
	every := flag.Duration("every", 0, "pause after a line")
	long := flag.Int("long", 0, "number of the one long line")
	size := flag.Int("long-bytes", 40<<10, "bytes of the long line")
	asJSON := flag.Bool("json", false, "print objects with a message and a level")
	stderrEvery := flag.Int("stderr-every", 10, "of so many lines the last goes to stderr; 0: none")
	flag.Parse()
	stop := make(chan os.Signal, 1) // one: the first is enough
	signal.Notify(stop, syscall.SIGTERM)
	for n := 1; ; n++ {
		if n == *count {
			<-stop
		}
		text := fmt.Sprintf("line %08d", n)
		if n == *long {
			text += " " + strings.Repeat("0123456789abcdef", *size/16)
		}
		show(text, *stderrEvery > 0 && n%*stderrEvery == 0, *asJSON)
		if n == *count {
			return
		}
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
