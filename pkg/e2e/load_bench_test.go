package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// load sends requests over kept-alive connections with as little work as possible,
// because it shares the machine with the processes that it measures.
type load struct {
	address     string // host:port
	connections int
	rate        float64 // requests per second over all connections; 0: full speed
	count       int     // requests to send; 0: until the context ends

	// request appends the i-th request, head and body, to dst. Several
	// goroutines call it at once.
	request func(dst []byte, i int) []byte
}

// flow is a running load.
type flow struct {
	load
	began time.Time
	next  atomic.Int64
	done  atomic.Int64 // requests that were answered with 2xx

	mu        sync.Mutex
	latencies []time.Duration // of a load with a rate: from the time a request was due to its answer
}

// run sends until the count is reached or ctx ends.
func (l load) run(ctx context.Context, b testing.TB) *flow {
	b.Helper()
	f := &flow{load: l, began: time.Now()}
	f.send(ctx, b)
	return f
}

// start runs the load in the background. The returned function waits for its end.
func (l load) start(ctx context.Context, b testing.TB) (f *flow, wait func()) {
	b.Helper()
	f = &flow{load: l, began: time.Now()}
	var running sync.WaitGroup
	running.Go(func() { f.send(ctx, b) })
	return f, running.Wait
}

func (f *flow) send(ctx context.Context, b testing.TB) {
	var senders sync.WaitGroup
	for range f.connections {
		senders.Go(func() {
			if err := f.sendOver(ctx); err != nil {
				b.Errorf("load on %s: %v", f.address, err)
			}
		})
	}
	senders.Wait()
	slices.Sort(f.latencies)
}

// sendOver sends over one connection.
func (f *flow) sendOver(ctx context.Context) error {
	connection, err := net.Dial("tcp", f.address)
	if err != nil {
		return err
	}
	defer connection.Close()
	answers := bufio.NewReader(connection)
	var scratch []byte
	var latencies []time.Duration
	for {
		i := int(f.next.Add(1)) - 1
		due, more := f.turn(ctx, i)
		if !more {
			break
		}
		scratch = f.request(scratch[:0], i)
		if _, err := connection.Write(scratch); err != nil {
			return err
		}
		if err := readAnswer(answers); err != nil {
			return err
		}
		f.done.Add(1)
		if f.rate > 0 {
			latencies = append(latencies, time.Since(due))
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.latencies = append(f.latencies, latencies...)
	return nil
}

// turn waits until the i-th request is due. It returns false after the last one.
func (f *flow) turn(ctx context.Context, i int) (due time.Time, more bool) {
	if f.count > 0 && i >= f.count || ctx.Err() != nil {
		return due, false
	}
	if f.rate == 0 {
		return due, true
	}
	due = f.began.Add(time.Duration(float64(i) / f.rate * float64(time.Second)))
	if early := time.Until(due); early > 0 {
		select {
		case <-time.After(early):
		case <-ctx.Done():
			return due, false
		}
	}
	return due, true
}

// percentile returns a percentile of the latencies.
func (f *flow) percentile(percent int) time.Duration {
	if len(f.latencies) == 0 {
		return 0
	}
	return f.latencies[(len(f.latencies)-1)*percent/100]
}

// readAnswer reads one answer, which must be a 2xx with a Content-Length.
func readAnswer(answers *bufio.Reader) error {
	status, length := "", -1
	for {
		line, err := answers.ReadSlice('\n')
		if err != nil {
			return err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		if status == "" {
			status = string(line)
			continue
		}
		if value, found := bytes.CutPrefix(line, []byte("Content-Length: ")); found {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return err
			}
		}
	}
	if length < 0 {
		return errors.New("an answer without Content-Length")
	}
	if !strings.HasPrefix(status, "HTTP/1.1 2") {
		content, err := io.ReadAll(io.LimitReader(answers, int64(length)))
		return fmt.Errorf("%s: %s: %w", status, content, err)
	}
	_, err := answers.Discard(length)
	return err
}

// appendRequest appends the head and the body of a POST.
func appendRequest(dst []byte, path, token string, body []byte) []byte {
	dst = appendHead(dst, path, token, len(body))
	return append(dst, body...)
}

func appendHead(dst []byte, path, token string, length int) []byte {
	dst = append(dst, "POST "...)
	dst = append(dst, path...)
	dst = append(dst, " HTTP/1.1\r\nHost: logboom\r\nContent-Type: application/json\r\nAuthorization: Bearer "...)
	dst = append(dst, token...)
	dst = append(dst, "\r\nContent-Length: "...)
	dst = strconv.AppendInt(dst, int64(length), 10)
	return append(dst, "\r\n\r\n"...)
}
