package query

import (
	"slices"
	"strings"

	"github.com/logboom/logboom/pkg/record"
)

// terms returns what the query joins by AND.
func (q Query) terms() []node {
	switch root := q.root.(type) {
	case nil:
		return nil
	case and:
		return root.of
	}
	return []node{q.root}
}

// join returns the query that joins terms by AND.
func join(kind record.Kind, terms []node) Query {
	switch len(terms) {
	case 0:
		return Query{kind: kind}
	case 1:
		return Query{kind, terms[0]}
	}
	return Query{kind, and{terms}}
}

// Terms returns the terms that the query joins by AND, each as a query.
func (q Query) Terms() []Query {
	var list []Query
	for _, n := range q.terms() {
		list = append(list, Query{q.kind, n})
	}
	return list
}

// Without returns the query without the term of that index in Terms.
func (q Query) Without(term int) Query {
	return join(q.kind, slices.Delete(slices.Clone(q.terms()), term, term+1))
}

// And returns the query that matches what both match.
func (q Query) And(other Query) Query {
	return join(q.kind, slices.Concat(q.terms(), other.terms()))
}

// AndText returns the query that also searches for a text, which is not empty.
func (q Query) AndText(text string) Query { return q.And(Query{q.kind, quoted{text}}) }

// selection is a term that names values of one field: host:web-1,
// -host:(web-1 OR web-2), or severity>=warn, which stands for the severities
// from one on.
type selection struct {
	field   field
	values  []string
	sign    string // of the negation; "": the values are included
	atLeast bool   // severity>=
}

// selectionOf returns what a term selects; ok is false for every other term.
func selectionOf(n node) (s selection, ok bool) {
	if negated, is := n.(not); is {
		s.sign, n = negated.sign, negated.of
	}
	switch n := n.(type) {
	case compares:
		levels := record.SeverityLevels()
		at := slices.IndexFunc(levels, func(level string) bool { return float64(record.SeverityNumber(level)) == n.number })
		if n.field.kind != severityField || n.operator != ">=" || s.sign != "" || at < 0 {
			return selection{}, false
		}
		return selection{field: n.field, values: levels[:at+1], atLeast: true}, true
	case fieldTerm:
		s.field = n.field
		values := []node{n.values}
		if several, is := n.values.(or); is {
			values = several.of
		}
		for _, value := range values {
			one, is := value.(equals)
			if !is {
				return selection{}, false
			}
			s.values = append(s.values, one.value)
		}
		return s, true
	}
	return selection{}, false
}

// node returns the term of a selection, nil for one without values.
func (s selection) node() node {
	var values []node
	for _, value := range s.values {
		values = append(values, equals{s.field, value})
	}
	var n node
	switch len(values) {
	case 0:
		return nil
	case 1:
		n = fieldTerm{s.field, values[0]}
	default:
		n = fieldTerm{s.field, or{values}}
	}
	if s.sign != "" {
		n = not{s.sign, n}
	}
	return n
}

// has reports whether the selection names a value, in any case: the query
// ignores case too.
func (s selection) has(value string) bool {
	return slices.ContainsFunc(s.values, func(one string) bool { return strings.EqualFold(one, value) })
}

// without returns the selection without a value.
func (s selection) without(value string) selection {
	s.values = slices.DeleteFunc(slices.Clone(s.values), func(one string) bool { return strings.EqualFold(one, value) })
	return s
}

// change returns the query with every selection of a field replaced by what edit
// returns.
func (q Query) change(name string, edit func(selection) selection) Query {
	var terms []node
	for _, n := range q.terms() {
		if s, ok := selectionOf(n); ok && s.field.name == name {
			if edited := edit(s); !slices.Equal(edited.values, s.values) {
				n = edited.node()
			}
		}
		if n != nil {
			terms = append(terms, n)
		}
	}
	return join(q.kind, terms)
}

func (q Query) and(s selection) Query { return q.And(Query{q.kind, s.node()}) }

// The methods below edit what a query says about the values of one field. They
// change only terms that are easy to understand, such as host:web-1,
// -host:(web-1 OR web-2) and severity>=warn, and keep all others. A field is
// given by its canonical name: application, severity, metadata.user, tags.user.

// SelectedFields returns the fields that the query selects values of.
func (q Query) SelectedFields() []string {
	var names []string
	for _, n := range q.terms() {
		if s, ok := selectionOf(n); ok && !slices.Contains(names, s.field.name) {
			names = append(names, s.field.name)
		}
	}
	return names
}

// Selected returns the values of a field that the query asks for, and those that
// it excludes.
func (q Query) Selected(field string) (included, excluded []string) {
	for _, n := range q.terms() {
		s, ok := selectionOf(n)
		switch {
		case !ok || s.field.name != field:
		case s.sign == "":
			included = append(included, s.values...)
		default:
			excluded = append(excluded, s.values...)
		}
	}
	return included, excluded
}

// Toggle adds a value of a field to those that the query asks for, or removes it
// from them. A value that was excluded no longer is.
func (q Query) Toggle(field, value string) Query {
	found := false
	edited := q.change(field, func(s selection) selection {
		if s.sign != "" {
			return s.without(value)
		}
		if found = true; s.has(value) {
			return s.without(value)
		}
		s.values = append(slices.Clone(s.values), value)
		return s
	})
	if found {
		return edited
	}
	return edited.and(selection{field: namedField(q.kind, field), values: []string{value}})
}

// ToggleExcluded excludes a value of a field, or no longer excludes it.
func (q Query) ToggleExcluded(field, value string) Query {
	found := false
	edited := q.change(field, func(s selection) selection {
		if s.atLeast {
			return s
		}
		found = found || s.sign != "" && s.has(value)
		return s.without(value)
	})
	if found {
		return edited
	}
	return edited.and(selection{field: namedField(q.kind, field), values: []string{value}, sign: "-"})
}

// WithoutField removes what the query selects of a field.
func (q Query) WithoutField(field string) Query {
	return q.change(field, func(s selection) selection {
		s.values = nil
		return s
	})
}

// LowerSeverity returns the query with the term of that index, severity>= with
// a severity, lowered to the next severity. ok is false for another term and for
// the lowest severity.
func (q Query) LowerSeverity(term int) (lowered Query, ok bool) {
	terms := slices.Clone(q.terms())
	s, ok := selectionOf(terms[term])
	levels := record.SeverityLevels()
	if !ok || !s.atLeast || len(s.values) == len(levels) {
		return q, false
	}
	next := levels[len(s.values)]
	terms[term] = compares{s.field, ">=", next, float64(record.SeverityNumber(next))}
	return join(q.kind, terms), true
}
