package query

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/logboom/logboom/pkg/record"
)

// This file is the meaning of queries, written a second time: Match answers about
// a record in memory what the SQL of a query answers about stored ones. A test
// against ClickHouse compares the two.

// Record is a log or an event. Fields of the other kind are empty.
type Record struct {
	ID             string
	Data           string
	Application    string
	Severity       string
	SeverityNumber uint8
	Host, Source   string

	Channel, Title, Description string

	Pairs map[string]string // metadata or tags
}

// Match reports whether ClickHouse should find the record by the query.
func Match(q Query, r *Record) bool {
	if q.root == nil {
		return true
	}
	return matcher{q.kind, r}.match(q.root)
}

type matcher struct {
	kind record.Kind
	r    *Record
}

func (m matcher) match(n node) bool {
	switch n := n.(type) {
	case not:
		return !m.match(n.of)
	case and:
		for _, of := range n.of {
			if !m.match(of) {
				return false
			}
		}
		return true
	case or:
		for _, of := range n.of {
			if m.match(of) {
				return true
			}
		}
		return false
	case phrase:
		s := n.search()
		return m.anyText(func(text string) bool {
			for _, word := range s.words {
				if !slices.Contains(splitWords(lowerASCII(text)), word) {
					return false
				}
			}
			if !s.folds {
				text = lowerASCII(text)
			}
			return s.pattern == "" || compiled(s.pattern).MatchString(text)
		})
	case quoted:
		return m.anyText(func(text string) bool { return compare(text, n.body, "", "", strings.Contains) })
	case expression:
		return m.anyText(compiled(dotMatchesLineEnds + n.pattern).MatchString)
	case fieldTerm:
		return m.match(n.values)
	case equals:
		if n.field.kind == idField {
			return m.r.ID == n.value
		}
		_, found := m.r.Pairs[n.field.key]
		return (found || n.field.kind != keyField) && compare(m.value(n.field), n.value, `\A`, `\z`, func(a, b string) bool { return a == b })
	case starts:
		return compare(m.value(n.field), n.prefix, `\A`, "", strings.HasPrefix)
	case exists:
		_, found := m.r.Pairs[n.field.key]
		return n.field.kind == idField || found && n.field.kind == keyField || n.field.kind != keyField && m.value(n.field) != ""
	case compares:
		if n.field.kind == severityField {
			return m.r.SeverityNumber > 0 && holds(float64(m.r.SeverityNumber), n)
		}
		text := m.value(n.field)
		if !compiled(numberForm).MatchString(text) {
			return false
		}
		number, _ := strconv.ParseFloat(text, 64) // the form is a number's
		return holds(number, n)
	}
	return true
}

func (m matcher) value(f field) string {
	if f.kind == keyField {
		return m.r.Pairs[f.key]
	}
	return m.column(f.column)
}

func (m matcher) column(name fragment) string {
	return map[fragment]string{
		"data": m.r.Data, "application": m.r.Application, "severity": m.r.Severity, "host": m.r.Host, "source": m.r.Source,
		"channel": m.r.Channel, "title": m.r.Title, "description": m.r.Description,
	}[name]
}

func (m matcher) anyText(passes func(text string) bool) bool {
	for _, column := range textColumns(m.kind) {
		if passes(m.column(column)) {
			return true
		}
	}
	return false
}

// compare compares without regard to case.
func compare(text, with, before, after string, by func(a, b string) bool) bool {
	if !isASCII(with) {
		return compiled(foldPattern(before, with, after)).MatchString(text)
	}
	return by(lowerASCII(text), lowerASCII(with))
}

func holds(number float64, n compares) bool {
	switch n.operator {
	case "<":
		return number < n.number
	case "<=":
		return number <= n.number
	case ">":
		return number > n.number
	}
	return number >= n.number
}

// aLog returns the log that TestTermsMeanWhatTheyShould queries.
func aLog() *Record {
	return &Record{
		ID:          "2-1048576-17",
		Data:        "GET /orders/7 failed: Connection REFUSED by 10.0.0.1 (req-3810) \"so what\", Größe=42 --verbose",
		Application: "Billing API", Severity: "Warning", SeverityNumber: 13, Host: "web-1", Source: "stdout",
		Pairs: map[string]string{"user": "Bob", "took": "12.5", "empty": "", "odd key": "x", "k8s.pod/name": "web-7f", "HOST": "h"},
	}
}

func TestTermsMeanWhatTheyShould(t *testing.T) {
	t.Parallel()
	yes := []string{
		"", "  ", "*", "failed", "FAILED", "req-3810", "REQ-3810", "connection refused", `"ction ref"`, "conn*", "req-38*", "größe", "GRÖSSE=42 OR größe",
		"/orders.[0-9]/", `/\/orders/`, "/REFUSED/", "NOT nothing", "-nothing", "failed -nothing", "nothing OR failed", "nothing other OR failed", "(nothing OR failed) refused",
		"failed AND refused", "or OR failed", "--verbose", "10.0.0.1", "user=bob OR 42", `"\"so what\""`, `"10.0.0.1 (REQ"`,
		"user:bob", "metadata.user:BOB", `metadata."odd key":x`, "user:b*", "user:*", "user!=alice", "nokey!=x", "-user:alice", "-nokey:*", "empty:*", `empty:""`,
		"application:billing* app:\"billing api\"", "level:warning", "severity:WARN*", "host:web-1", "host:(web-2 OR web-1)", "host:(web* -web-2)", "source!=stderr",
		"severity>=warn", "severity>=13", "severity<error", "severity<=warning", "severity>info", "took>12", "took<=12.5", "took>=1.25e1", "took<1e3",
		"id:2-1048576-17", "id:*", "k8s.pod/name:web-7f", "metadata.HOST:h", "user:(\"bob\" OR \"alice\")", "nokey!=(a OR b)",
	}
	no := []string{
		"fail", "efused", "ction", "req-381", "3810-req", "nothing", "NOT failed", "-failed", "failed nothing", "failed AND NOT refused", "/refused/", `"failed connection"`,
		"user:bo", "user:alice", "user!=BOB", "nokey:*", `nokey:""`, "host:web", "took>12.5", "user>5", "empty<5", "nokey<5", "severity>warn", "id:2-1048576-18", "id!=2-1048576-17",
		"metadata.host:*", "get /ORDERS/", "http://", "größ", "metadata.USER:bob", "severity:warn",
	}
	for _, list := range []struct {
		texts []string
		want  bool
	}{{yes, true}, {no, false}} {
		for _, text := range list.texts {
			q, err := Parse(record.KindLog, text)
			if err != nil {
				t.Errorf("%q: %v", text, err)
				continue
			}
			if got := Match(q, aLog()); got != list.want {
				t.Errorf("%q: match %v, want %v; as SQL %s", text, got, list.want, q.Compile().SQL)
			}
		}
	}
}

func TestEventsHaveFieldsOfTheirOwn(t *testing.T) {
	t.Parallel()
	event := &Record{Channel: "Deploys", Title: "v42 is live", Description: "All regions", Pairs: map[string]string{"commit": "abc", "host": "h"}}
	for text, want := range map[string]bool{
		"live": true, "regions": true, "live regions": true, "live-all": false, "channel:deploys": true, `title:"V42 is live"`: true, "title:v42": false,
		"description:all*": true, "tags.commit:ABC": true, "commit:abc": true, "host:h": true, "severity:*": false, "NOT regions": false,
	} {
		q, err := Parse(record.KindEvent, text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := Match(q, event); got != want {
			t.Errorf("%q: match %v, want %v", text, got, want)
		}
	}
}

// patterns contains compiled expressions: a test applies each to many records.
var patterns sync.Map

func compiled(pattern string) *regexp.Regexp {
	if found, ok := patterns.Load(pattern); ok {
		return found.(*regexp.Regexp)
	}
	found := regexp.MustCompile(pattern)
	patterns.Store(pattern, found)
	return found
}
