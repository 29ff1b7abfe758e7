package decode

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/record"
)

// now is when every body of these tests was received.
var now = time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)

func defaults() Defaults {
	return Defaults{Now: now, Application: "token-name", Oldest: now.AddDate(0, 0, -30)}
}

func decodeLogs(body string) ([]record.Log, Result) {
	return decodeLogsWithin(DefaultLimits(), body)
}

func decodeLogsWithin(l Limits, body string) ([]record.Log, Result) {
	var logs []record.Log
	result := NewDecoder(l).Logs([]byte(body), defaults(), func(l *record.Log) {
		c := *l
		c.Data, c.Application, c.Severity = strings.Clone(l.Data), strings.Clone(l.Application), strings.Clone(l.Severity)
		c.Host, c.Source, c.Metadata = strings.Clone(l.Host), strings.Clone(l.Source), clonePairs(l.Metadata)
		logs = append(logs, c)
	})
	return logs, result
}

func decodeEvents(body string) ([]record.Event, Result) {
	var events []record.Event
	result := NewDecoder(DefaultLimits()).Events([]byte(body), defaults(), func(e *record.Event) {
		c := *e
		c.Channel, c.Title, c.Icon = strings.Clone(e.Channel), strings.Clone(e.Title), strings.Clone(e.Icon)
		c.Description, c.Tags = strings.Clone(e.Description), clonePairs(e.Tags)
		events = append(events, c)
	})
	return events, result
}

func clonePairs(pairs []record.Pair) []record.Pair {
	var out []record.Pair
	for _, p := range pairs {
		out = append(out, record.Pair{Key: strings.Clone(p.Key), Value: strings.Clone(p.Value)})
	}
	return out
}

// oneLog returns the only entry of a body, which must be valid.
func oneLog(t *testing.T, body string) record.Log {
	t.Helper()
	logs, result := decodeLogs(body)
	if len(logs) != 1 || result.RejectedTotal != 0 {
		t.Fatalf("%.200s: %d logs, %+v", body, len(logs), result)
	}
	return logs[0]
}

func oneEvent(t *testing.T, body string) record.Event {
	t.Helper()
	events, result := decodeEvents(body)
	if len(events) != 1 || result.RejectedTotal != 0 {
		t.Fatalf("%.200s: %d events, %+v", body, len(events), result)
	}
	return events[0]
}

// pairsText returns pairs as "key=value", separated by spaces.
func pairsText(pairs []record.Pair) string {
	var parts []string
	for _, p := range pairs {
		parts = append(parts, p.Key+"="+p.Value)
	}
	return strings.Join(parts, " ")
}

func metadata(t *testing.T, body string) string {
	t.Helper()
	return pairsText(oneLog(t, body).Metadata)
}

// datas returns the data of all logs, separated by bars.
func datas(logs []record.Log) string {
	var parts []string
	for _, l := range logs {
		parts = append(parts, l.Data)
	}
	return strings.Join(parts, "|")
}

func quoted(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}
