package query_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/decode"
	"github.com/logboom/logboom/pkg/query"
	"github.com/logboom/logboom/pkg/record"
)

// The words that a comparison takes are those that senders are understood in.
func TestSeverityWordsAreThoseOfDecode(t *testing.T) {
	t.Parallel()
	words := []string{
		"trace", "trce", "finest", "verbose", "vrb", "debug", "dbg", "fine", "d", "info", "information", "informational", "inf", "i", "notice", "NOTICE", "warn", "Warning", "wrn", "w",
		"error", "err", "severe", "e", "critical", "crit", "dpanic", "alert", "panic", "fatal", "ftl", "emerg", "emergency", "f", "loud", "warnin", "x", "fatality",
	}
	for _, word := range words {
		var number uint8
		body := fmt.Appendf(nil, `{"data":"x","severity":%q}`, word)
		decode.NewDecoder(decode.DefaultLimits()).Logs(body, decode.Defaults{Now: time.Now()}, func(l *record.Log) { number = l.SeverityNumber })
		q, err := query.Parse(query.Logs, "severity>="+word+" severity<="+word)
		if known := err == nil; known != (number > 0) {
			t.Errorf("%s is number %d to decode, and here: %v", word, number, err)
			continue
		}
		if number > 0 && !q.Match(&query.Record{SeverityNumber: number}) {
			t.Errorf("%s is number %d to decode, and another here", word, number)
		}
	}
}
