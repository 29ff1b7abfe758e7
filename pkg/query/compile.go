package query

import (
	"strconv"
	"strings"

	"github.com/logboom/logboom/pkg/record"
)

// Condition is a query as SQL for the WHERE of the logs or events table, with
// what it binds.
type Condition struct {
	SQL       string
	Arguments []Argument
}

// Argument is a bound parameter. Value is a string, a float64 or an unsigned
// integer.
type Argument struct {
	Name  string // q0, q1 and so on
	Value any
}

// Compile writes the query as SQL. The text of a query without terms is 1.
func (q Query) Compile() Condition {
	c := &compiler{}
	if q.root == nil {
		c.add("1")
	} else {
		q.root.write(c)
	}
	return Condition{c.sql.String(), c.arguments}
}

// compiler puts SQL together. add takes constants and bind parameters, and
// there is no third way in.
type compiler struct {
	sql       strings.Builder
	arguments []Argument
}

func (c *compiler) add(parts ...fragment) {
	for _, part := range parts {
		c.sql.WriteString(string(part))
	}
}

// bind writes a parameter of a type of ClickHouse.
func (c *compiler) bind(typ fragment, value any) {
	name := "q" + strconv.Itoa(len(c.arguments))
	c.arguments = append(c.arguments, Argument{name, value})
	c.sql.WriteString("{" + name + ":" + string(typ) + "}")
}

// matches writes a search for a pattern. The dot stands for line ends too, in
// ClickHouse by itself.
func (c *compiler) matches(haystack func(), pattern string) {
	c.add("match(")
	haystack()
	c.add(", ")
	c.bind("String", pattern)
	c.add(")")
}

// join writes parts with something between them, in parentheses where there are
// several.
func (c *compiler) join(between fragment, n int, part func(i int)) {
	if n == 1 {
		part(0)
		return
	}
	c.add("(")
	for i := range n {
		if i > 0 {
			c.add(between)
		}
		part(i)
	}
	c.add(")")
}

// value writes a field's value as text; a key that is not there has "".
func (c *compiler) value(kind record.Kind, f field) {
	if f.kind != pairField {
		c.add(f.column)
		return
	}
	c.add(pairsOf(kind), "[")
	c.bind("String", f.key)
	c.add("]")
}

func (c *compiler) lowerValue(kind record.Kind, f field) {
	c.add("lower(")
	c.value(kind, f)
	c.add(")")
}

// hasKey writes whether the pairs have the key.
func (c *compiler) hasKey(kind record.Kind, f field) {
	c.add("mapContains(", pairsOf(kind), ", ")
	c.bind("String", f.key)
	c.add(")")
}

// hasWord writes the search for a word in the form that the index of words
// understands.
func (c *compiler) hasWord(column fragment, word string) {
	c.add("hasToken(lower(", column, "), ")
	c.bind("String", word)
	c.add(")")
}

// texts writes a test of each text of the kind; one that passes is enough.
func (c *compiler) texts(kind record.Kind, one func(column fragment)) {
	columns := textsOf(kind)
	c.join(" OR ", len(columns), func(i int) { one(columns[i]) })
}

func (all) write(c *compiler) { c.add("1") }

func (n not) write(c *compiler) {
	c.add("NOT (")
	n.of.write(c)
	c.add(")")
}

func (n both) write(c *compiler) {
	c.join(" AND ", len(n.of), func(i int) { n.of[i].write(c) })
}

func (n either) write(c *compiler) {
	c.join(" OR ", len(n.of), func(i int) { n.of[i].write(c) })
}

func (n phrase) write(c *compiler) {
	c.texts(n.kind, func(column fragment) {
		parts := len(n.words)
		if !n.plain {
			parts++
		}
		c.join(" AND ", parts, func(i int) {
			switch {
			case i < len(n.words):
				c.hasWord(column, n.words[i])
			case n.folds:
				c.matches(func() { c.add(column) }, n.pattern.String())
			default:
				c.matches(func() { c.add("lower(", column, ")") }, n.pattern.String())
			}
		})
	})
}

func (n contains) write(c *compiler) {
	c.texts(n.kind, func(column fragment) {
		if n.fold != nil {
			c.matches(func() { c.add(column) }, n.fold.String())
			return
		}
		words := innerWords(n.text)
		c.join(" AND ", len(words)+1, func(i int) {
			if i < len(words) {
				c.hasWord(column, words[i])
				return
			}
			c.add("position(lower(", column, "), ")
			c.bind("String", n.text)
			c.add(") > 0")
		})
	})
}

func (n matches) write(c *compiler) {
	c.texts(n.kind, func(column fragment) {
		c.matches(func() { c.add(column) }, n.pattern.String())
	})
}

// write looks for the value among all values first: that is the form that the
// index of the logs' metadata understands.
func (n equals) write(c *compiler) {
	value := func() { c.value(n.kind, n.field) }
	switch {
	case n.fold != nil:
		c.matches(value, n.fold.String())
		return
	case n.field.kind != pairField:
		c.lowerValue(n.kind, n.field)
		c.add(" = ")
		c.bind("String", n.text)
		return
	}
	c.add("(")
	if n.text == "" {
		c.hasKey(n.kind, n.field)
	} else {
		c.add("has(arrayMap(v -> lower(v), mapValues(", pairsOf(n.kind), ")), ")
		c.bind("String", n.text)
		c.add(")")
	}
	c.add(" AND ")
	c.lowerValue(n.kind, n.field)
	c.add(" = ")
	c.bind("String", n.text)
	c.add(")")
}

func (n starts) write(c *compiler) {
	if n.fold != nil {
		c.matches(func() { c.value(n.kind, n.field) }, n.fold.String())
		return
	}
	c.add("startsWith(")
	c.lowerValue(n.kind, n.field)
	c.add(", ")
	c.bind("String", n.text)
	c.add(")")
}

func (n exists) write(c *compiler) {
	switch n.field.kind {
	case idField:
		c.add("1")
	case pairField:
		c.hasKey(n.kind, n.field)
	default:
		c.add(n.field.column, " != ''")
	}
}

func (n compares) write(c *compiler) {
	c.add("(")
	if n.field.kind == severityField {
		c.add("severity_number > 0 AND severity_number")
	} else {
		c.matches(func() { c.value(n.kind, n.field) }, numberForm)
		c.add(" AND toFloat64OrZero(")
		c.value(n.kind, n.field)
		c.add(")")
	}
	c.add(operatorSQL(n.operator))
	c.bind("Float64", n.number)
	c.add(")")
}

// operatorSQL is a comparison's operator as a constant.
func operatorSQL(operator string) fragment {
	switch operator {
	case "<":
		return " < "
	case "<=":
		return " <= "
	case ">":
		return " > "
	}
	return " >= "
}

func (n identity) write(c *compiler) {
	c.add("(_shard = ")
	c.bind("UInt8", n.shard)
	c.add(" AND _seq = ")
	c.bind("UInt64", n.seq)
	c.add(" AND _idx = ")
	c.bind("UInt32", n.idx)
	c.add(")")
}
