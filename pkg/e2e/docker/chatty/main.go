// Command chatty is the program in the tests' containers. It prints numbered lines
// until it receives a signal.
//
// If it prints a given number of lines, it prints the last one only after the
// signal. Docker reads the output of a container for only two seconds after its
// end, so a container that simply ends may lose lines on a busy machine.
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
	stop := make(chan os.Signal, 1) // capacity 1: the first signal is enough
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
