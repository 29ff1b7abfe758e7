package query

import (
	"strings"
	"testing"

	"github.com/logboom/logboom/pkg/record"
)

func BenchmarkParseAndCompile(b *testing.B) {
	for name, text := range map[string]string{
		"word":    "failed",
		"usual":   `app:billing severity>=error "connection refused" -host:web-1`,
		"largest": strings.Repeat("aB1 ", maxTerms),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				q, err := Parse(record.KindLog, text)
				if err != nil {
					b.Fatal(err)
				}
				q.Compile()
			}
		})
	}
}
