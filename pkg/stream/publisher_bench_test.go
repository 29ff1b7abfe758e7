package stream_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

// BenchmarkPublish publishes bodies of one size without a key from many callers, so
// that they are joined.
func BenchmarkPublish(b *testing.B) {
	for _, callers := range []int{1, 64} {
		for _, size := range []int{300, 64 << 10, 512 << 10} {
			b.Run(fmt.Sprintf("callers=%d/bytes=%d", callers, size), func(b *testing.B) {
				benchmarkPublish(b, callers, size, stream.PublisherConfig{}, func(uint64) string { return "" })
			})
		}
	}
}

// BenchmarkPublishInFlight measures MaxInFlight, for its default.
func BenchmarkPublishInFlight(b *testing.B) {
	for _, inFlight := range []int{1, 2, 4, 8} {
		for _, size := range []int{300, 512 << 10} {
			b.Run(fmt.Sprintf("inflight=%d/bytes=%d", inFlight, size), func(b *testing.B) {
				benchmarkPublish(b, 64, size, stream.PublisherConfig{MaxInFlight: inFlight}, func(uint64) string { return "" })
			})
		}
	}
}

// BenchmarkPublishKeyed publishes bodies with a key, each of which is a message of
// its own in an atomic batch.
func BenchmarkPublishKeyed(b *testing.B) {
	for _, callers := range []int{1, 64, 512, 2048} {
		b.Run(fmt.Sprintf("callers=%d/bytes=1024", callers), func(b *testing.B) {
			benchmarkPublish(b, callers, 1<<10, stream.PublisherConfig{}, func(n uint64) string { return fmt.Sprint(n) })
		})
	}
}

// BenchmarkConsume reads a stream of messages of one size again and again.
func BenchmarkConsume(b *testing.B) {
	for _, size := range []int{1 << 10, 512 << 10} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			q := newQueue(b)
			topology := q.Open(stream.Config{Shards: 1})
			p := q.publisher(topology, stream.PublisherConfig{})
			const messages = 256
			for range messages {
				m := stream.Message{Kind: record.KindLog, Project: "shop", Parts: [][]byte{make([]byte, size)}}
				if _, err := p.Publish(q.Ctx(), m); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			var c *stream.Consumer
			for i := 0; b.Loop(); i++ {
				if i%messages == 0 {
					c = q.consume(topology, "LOGS_0", 1, stream.ConsumerConfig{})
				}
				if _, err := c.Next(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func benchmarkPublish(b *testing.B, callers, size int, cfg stream.PublisherConfig, key func(uint64) string) {
	q := newQueue(b)
	topology := q.Open(stream.Config{MaxBytes: 3 << 30})
	p := q.publisher(topology, cfg)
	body := bytes.Repeat([]byte("x"), size)
	var next atomic.Uint64
	b.SetBytes(int64(size))
	b.ReportAllocs()
	cpu := processTime(b)
	b.ResetTimer()
	var running sync.WaitGroup
	for range callers {
		running.Go(func() {
			for n := next.Add(1); n <= uint64(b.N); n = next.Add(1) {
				m := stream.Message{Kind: record.KindLog, Project: "shop", ID: key(n), Parts: [][]byte{body}, Records: 1}
				if _, err := p.Publish(context.Background(), m); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
	b.StopTimer()
	stats := p.Stats()
	b.ReportMetric(float64(stats.Bodies)/b.Elapsed().Seconds(), "bodies/s")
	b.ReportMetric(float64(stats.Bodies)/float64(max(1, stats.Messages)), "bodies/message")
	b.ReportMetric(float64((processTime(b)-cpu).Microseconds())/float64(b.N), "cpu-us/op")
}

// processTime returns the CPU time of this process, with the server's.
func processTime(tb testing.TB) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
