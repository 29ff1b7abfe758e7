package query

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/logboom/logboom/pkg/record"
)

// Record is a log or an event as [Query.Match] sees it. Fields of the other
// kind are left empty.
type Record struct {
	Shard uint8
	Seq   uint64
	Idx   uint32

	Data           string
	Application    string
	Severity       string
	SeverityNumber uint8
	Host, Source   string

	Channel, Title, Description string

	Pairs map[string]string // metadata or tags
}

// Match tells whether ClickHouse would find the record by the query.
func (q Query) Match(r *Record) bool { return q.root == nil || q.root.match(r) }

// column is the text of a column of the record.
func (r *Record) column(name fragment) string {
	switch name {
	case "data":
		return r.Data
	case "application":
		return r.Application
	case "severity":
		return r.Severity
	case "host":
		return r.Host
	case "source":
		return r.Source
	case "channel":
		return r.Channel
	case "title":
		return r.Title
	}
	return r.Description
}

// value is a field's text, "" where the record has no such key.
func (r *Record) value(f field) string {
	if f.kind == pairField {
		return r.Pairs[f.key]
	}
	return r.column(f.column)
}

// anyOf tells whether one of the kind's texts passes.
func (r *Record) anyOf(kind record.Kind, passes func(text string) bool) bool {
	for _, column := range textsOf(kind) {
		if passes(r.column(column)) {
			return true
		}
	}
	return false
}

func (all) match(*Record) bool { return true }

func (n not) match(r *Record) bool { return !n.of.match(r) }

func (n both) match(r *Record) bool {
	for _, of := range n.of {
		if !of.match(r) {
			return false
		}
	}
	return true
}

func (n either) match(r *Record) bool {
	for _, of := range n.of {
		if of.match(r) {
			return true
		}
	}
	return false
}

func (n phrase) match(r *Record) bool {
	return r.anyOf(n.kind, func(text string) bool {
		if n.folds {
			return n.pattern.MatchString(text)
		}
		return n.pattern.MatchString(lowerASCII(text))
	})
}

func (n contains) match(r *Record) bool {
	return r.anyOf(n.kind, func(text string) bool { return compare(text, n.text, n.fold, strings.Contains) })
}

func (n matches) match(r *Record) bool { return r.anyOf(n.kind, n.pattern.MatchString) }

func (n equals) match(r *Record) bool {
	if _, found := r.Pairs[n.field.key]; n.field.kind == pairField && !found {
		return false
	}
	return compare(r.value(n.field), n.text, n.fold, func(a, b string) bool { return a == b })
}

func (n starts) match(r *Record) bool {
	return compare(r.value(n.field), n.text, n.fold, strings.HasPrefix)
}

// compare compares in any case.
func compare(text, with string, fold *regexp.Regexp, by func(a, b string) bool) bool {
	if fold != nil {
		return fold.MatchString(text)
	}
	return by(lowerASCII(text), with)
}

func (n exists) match(r *Record) bool {
	switch n.field.kind {
	case idField:
		return true
	case pairField:
		_, found := r.Pairs[n.field.key]
		return found
	}
	return r.value(n.field) != ""
}

func (n compares) match(r *Record) bool {
	if n.field.kind == severityField {
		return r.SeverityNumber > 0 && n.holds(float64(r.SeverityNumber))
	}
	text := r.value(n.field)
	if !isNumber(text) {
		return false
	}
	number, _ := strconv.ParseFloat(text, 64) // isNumber lets nothing pass that is not one
	return n.holds(number)
}

func (n compares) holds(number float64) bool {
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

func (n identity) match(r *Record) bool {
	return r.Shard == n.shard && r.Seq == n.seq && r.Idx == n.idx
}
