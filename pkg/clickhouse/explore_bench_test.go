package clickhouse

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/query"
	"github.com/logboom/logboom/pkg/record"
)

// million is the number of logs in the explorer's benchmarks.
const million = 1_000_000

// exploredProject inserts what a shop of six applications logs: three pairs of
// metadata in each line, one of 5,000 users, a new trace in every 50th line, a
// rare word in every 50,000th.
func exploredProject(b *testing.B) *Client {
	b.Helper()
	client := migrated(b, "")
	var block LogBlock
	for i := range million {
		n := i * 7919 % 1_000_003
		l := record.Log{
			Timestamp: noon + int64(i)*int64(time.Millisecond), Application: fmt.Sprintf("app-%d", n%6),
			Severity: "INFO", SeverityNumber: 9, Host: fmt.Sprintf("node-%d", n%40), Source: "docker",
			Data: fmt.Sprintf("GET /orders/%d from 10.0.%d.%d took %d ms, user u%d, cache miss on shard %d of the session store", n, n%251, n%13, n%977, n%5000, n%16),
			Metadata: []record.Pair{
				{Key: "image", Value: fmt.Sprintf("registry.example/app:1.2.%d", n%9)},
				{Key: "stream", Value: "stdout"},
				{Key: "user", Value: fmt.Sprintf("u%d", n%5000)},
			},
		}
		if n%17 == 0 {
			l.Severity, l.SeverityNumber = "ERROR", 17
		}
		if i%50 == 0 {
			l.Metadata = append(l.Metadata, record.Pair{Key: "trace_id", Value: fmt.Sprintf("%016x", n)})
		}
		if i%50_000 == 0 {
			l.Data += " quixotic"
		}
		block.Append(Row{Shard: uint8(i / 500 % 4), Seq: uint64(i/2000) + 1, Idx: uint32(i % 500), Received: l.Timestamp, Project: project}, &l)
		if block.Rows() == 50_000 {
			if err := client.InsertLogs(b.Context(), fmt.Sprint(i), &block); err != nil {
				b.Fatal(err)
			}
			block.Reset()
		}
	}
	return client
}

// BenchmarkExplorer runs the reads of the explorer, each alone and all together,
// for all lines and for some.
func BenchmarkExplorer(b *testing.B) {
	client := exploredProject(b)
	from, to := time.Unix(0, noon), time.Unix(0, noon).Add(million*time.Millisecond)
	for _, text := range []string{"", "quixotic", "req-3810", `"on shard 7"`, "severity>=error user:u77", "/shard 1[0-5]/", "user>5"} {
		f := parsed(b, text)
		parts := explorerParts(client, from, to, f)
		for _, name := range []string{"page", "histogram", "facets"} {
			b.Run(fmt.Sprintf("q=%s/%s", text, name), func(b *testing.B) {
				for b.Loop() {
					if err := parts[name](b); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		b.Run(fmt.Sprintf("q=%s/all-at-once", text), func(b *testing.B) {
			for b.Loop() {
				var group sync.WaitGroup
				for _, part := range parts {
					group.Go(func() {
						if err := part(b); err != nil {
							b.Error(err)
						}
					})
				}
				group.Wait()
			}
		})
	}
}

// explorerParts returns the reads of the explorer by name.
func explorerParts(client *Client, from, to time.Time, f query.Query) map[string]func(*testing.B) error {
	return map[string]func(*testing.B) error{
		"page": func(b *testing.B) error {
			_, err := client.Logs(b.Context(), LogQuery{Project: project, From: from, To: to, Filter: f})
			return err
		},
		"histogram": func(b *testing.B) error {
			_, err := client.Histogram(b.Context(), HistogramQuery{Project: project, From: from, To: to, Filter: f, Buckets: 60})
			return err
		},
		"facets": func(b *testing.B) error {
			_, err := client.Facets(b.Context(), FacetQuery{Project: project, From: from, To: to, Filter: f})
			return err
		},
	}
}

// BenchmarkTail runs one read of a tail that has read a million logs of the last
// hour: without new logs, and after a batch arrived.
func BenchmarkTail(b *testing.B) {
	client := exploredProject(b)
	now := time.Unix(0, noon).Add(million * time.Millisecond)
	mark, err := client.Tail(b.Context(), project, now)
	if err != nil {
		b.Fatal(err)
	}
	look := func(b *testing.B, m TailMark) TailMark {
		found, err := client.Follow(b.Context(), project, parsed(b, "quixotic"), m, 1000, now)
		if err != nil {
			b.Fatal(err)
		}
		return found.Next
	}
	b.Run("nothing-new", func(b *testing.B) {
		for m := mark; b.Loop(); {
			m = look(b, m)
		}
	})
	behind := mark.clone()
	for shard := range behind.seqs {
		behind.seqs[shard] -= 50
	}
	b.Run("a-batch", func(b *testing.B) {
		for b.Loop() {
			look(b, behind)
		}
	})
}
