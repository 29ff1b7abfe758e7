package e2e

import (
	"bytes"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

// The benchmarks of this file measure the smallest cost of a request with one
// log, without Logboom's own code.

// httpFloor is the CPU time, in microseconds, that net/http and echo need to
// answer a request of one log's size without reading it.
func (s *system) httpFloor(b *testing.B) float64 {
	b.Helper()
	const count = 100_000
	requests := s.native(bodies(b, 1, 1000, nativeForm))
	probe := func(dst []byte, i int) []byte {
		return append(dst, bytes.Replace(requests(nil, i), []byte("POST"), []byte("OPTIONS"), 1)...)
	}
	m := s.measure(b)
	s.profiled(b, "floor", func() {
		load{address: s.host(), connections: 64, count: count, request: probe}.run(b.Context(), b)
	})
	return m.perRecord(b, count)["ingest"]
}

// queueFloor is the CPU time, in microseconds per request, that the queue needs to
// store messages of one size. Two publishes are in progress at a time, as in
// ingest, and nothing reads. The messages together carry that many requests.
func (s *system) queueFloor(b *testing.B, messages, size, requests int) float64 {
	b.Helper()
	nc, _, err := stream.Connect(b.Context(), s.queue, stream.ConnectConfig{Name: "floor"})
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(2))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := js.CreateStream(b.Context(), jetstream.StreamConfig{Name: "FLOOR", Subjects: []string{"floor"}}); err != nil {
		b.Fatal(err)
	}
	message := bytes.Repeat([]byte("floor "), size/6+1)[:size]
	m := s.measure(b)
	for range messages {
		if _, err := js.PublishAsync("floor", message); err != nil {
			b.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	return m.perRecord(b, requests)["nats"]
}

// queued returns the messages and bytes that the streams of logs received.
func (s *system) queued(b *testing.B) (messages, size int) {
	b.Helper()
	nc, js, err := stream.Connect(b.Context(), s.queue, stream.ConnectConfig{Name: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	topology, err := stream.Open(b.Context(), js, stream.Config{})
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range topology.Streams(record.KindLog) {
		open, err := js.Stream(b.Context(), name)
		if err != nil {
			b.Fatal(err)
		}
		state := open.CachedInfo().State
		messages += int(state.LastSeq)
		size += int(state.Bytes)
	}
	return messages, size
}
