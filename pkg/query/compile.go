package query

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/logboom/logboom/pkg/record"
)

// Condition is a query as SQL, for the WHERE clause of a read of the logs or
// events table, with the parameters that it binds.
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

// Compile returns the query as SQL. A query without terms is 1.
func (q Query) Compile() Condition {
	c := &compiler{kind: q.kind}
	if q.root == nil {
		c.add("1")
	} else {
		q.root.compile(c)
	}
	return Condition{c.sql.String(), c.arguments}
}

// compiler writes SQL. add, which accepts constants, and bind are the only ways
// to write.
type compiler struct {
	kind      record.Kind
	sql       strings.Builder
	arguments []Argument
}

func (c *compiler) add(parts ...fragment) {
	for _, part := range parts {
		c.sql.WriteString(string(part))
	}
}

// bind writes a parameter of a ClickHouse type.
func (c *compiler) bind(typ fragment, value any) {
	name := "q" + strconv.Itoa(len(c.arguments))
	c.arguments = append(c.arguments, Argument{name, value})
	c.sql.WriteString("{" + name + ":" + string(typ) + "}")
}

// matches writes the search for a regular expression.
func (c *compiler) matches(haystack func(), pattern string) {
	c.add("match(")
	haystack()
	c.add(", ")
	c.bind("String", pattern)
	c.add(")")
}

// join writes n parts with a separator, in parentheses where there are several.
func (c *compiler) join(separator fragment, n int, part func(i int)) {
	if n == 1 {
		part(0)
		return
	}
	c.add("(")
	for i := range n {
		if i > 0 {
			c.add(separator)
		}
		part(i)
	}
	c.add(")")
}

// value writes a field's value as text. ClickHouse returns "" for a key that
// the record does not have.
func (c *compiler) value(f field) {
	if f.kind != keyField {
		c.add(f.column)
		return
	}
	c.add(keysColumn(c.kind), "[")
	c.bind("String", f.key)
	c.add("]")
}

func (c *compiler) lowerValue(f field) {
	c.add("lower(")
	c.value(f)
	c.add(")")
}

func (c *compiler) hasKey(f field) {
	c.add("mapContains(", keysColumn(c.kind), ", ")
	c.bind("String", f.key)
	c.add(")")
}

// hasWord writes the search for a word in the form that the word index
// understands.
func (c *compiler) hasWord(column fragment, word string) {
	c.add("hasToken(lower(", column, "), ")
	c.bind("String", word)
	c.add(")")
}

// anyText writes a test of each of the kind's texts. One that passes is enough.
func (c *compiler) anyText(test func(column fragment)) {
	columns := textColumns(c.kind)
	c.join(" OR ", len(columns), func(i int) { test(columns[i]) })
}

func (all) compile(c *compiler) { c.add("1") }

func (n not) compile(c *compiler) {
	c.add("NOT (")
	n.of.compile(c)
	c.add(")")
}

func (n and) compile(c *compiler) {
	c.join(" AND ", len(n.of), func(i int) { n.of[i].compile(c) })
}

func (n or) compile(c *compiler) {
	c.join(" OR ", len(n.of), func(i int) { n.of[i].compile(c) })
}

func (n fieldTerm) compile(c *compiler) { n.values.compile(c) }

// Texts in ASCII are compared in lower case, by ClickHouse's lower(), which
// changes 26 letters. Every other text is compared by a regular expression,
// because ClickHouse and Go fold the cases of those in the same way.

// phraseSearch is how a phrase is searched: every one of words must be there, and
// pattern must match, unless it is "".
type phraseSearch struct {
	words   []string // whole words, in lower case
	pattern string
	folds   bool // the pattern ignores case itself; otherwise the text must be in lower case
}

// wordBreak matches a character between words.
const wordBreak = `[^0-9A-Za-z\x{80}-\x{10FFFF}]`

func (n phrase) search() phraseSearch {
	body, prefix := strings.CutSuffix(n.typed, "*")
	prefix = prefix && isWordByte(body[len(body)-1]) // a * behind another character belongs to no word
	s := phraseSearch{words: splitWords(body), folds: !isASCII(body)}
	escaped := make([]string, len(s.words))
	for i, word := range s.words {
		s.words[i] = lowerASCII(word)
		escaped[i] = regexp.QuoteMeta(s.words[i])
	}
	s.pattern = `(?:\A|` + wordBreak + `)` + strings.Join(escaped, wordBreak+`+`)
	if !prefix {
		s.pattern += `(?:` + wordBreak + `|\z)`
	}
	switch {
	case s.folds:
		s.words, s.pattern = nil, `(?i)`+s.pattern
	case prefix:
		s.words = s.words[:len(s.words)-1]
	case len(s.words) == 1:
		s.pattern = "" // hasToken finds a single word by itself
	}
	return s
}

func (n phrase) compile(c *compiler) {
	s := n.search()
	parts := len(s.words)
	if s.pattern != "" {
		parts++
	}
	c.anyText(func(column fragment) {
		c.join(" AND ", parts, func(i int) {
			switch {
			case i < len(s.words):
				c.hasWord(column, s.words[i])
			case s.folds:
				c.matches(func() { c.add(column) }, s.pattern)
			default:
				c.matches(func() { c.add("lower(", column, ")") }, s.pattern)
			}
		})
	})
}

// foldPattern returns a pattern for a text that is not ASCII.
func foldPattern(before, text, after string) string {
	return `(?i)` + before + regexp.QuoteMeta(text) + after
}

// compile searches the words inside the text first, because the index knows
// them. The first and last word may be parts of longer ones.
func (n quoted) compile(c *compiler) {
	c.anyText(func(column fragment) {
		if !isASCII(n.body) {
			c.matches(func() { c.add(column) }, foldPattern("", n.body, ""))
			return
		}
		isPart := func(r rune) bool { return isWordByte(byte(r)) }
		words := splitWords(lowerASCII(strings.TrimFunc(n.body, isPart)))
		c.join(" AND ", len(words)+1, func(i int) {
			if i < len(words) {
				c.hasWord(column, words[i])
				return
			}
			c.add("position(lower(", column, "), ")
			c.bind("String", lowerASCII(n.body))
			c.add(") > 0")
		})
	})
}

// dotMatchesLineEnds makes Go's expressions work as ClickHouse's match() does.
const dotMatchesLineEnds = "(?s)"

func (n expression) compile(c *compiler) {
	c.anyText(func(column fragment) {
		c.matches(func() { c.add(column) }, dotMatchesLineEnds+n.pattern)
	})
}

func (n equals) compile(c *compiler) {
	switch {
	case n.field.kind == idField:
		compileID(c, n.value)
		return
	case !isASCII(n.value):
		c.matches(func() { c.value(n.field) }, foldPattern(`\A`, n.value, `\z`))
		return
	}
	value := lowerASCII(n.value)
	if n.field.kind == keyField {
		c.add("(")
		if value == "" {
			c.hasKey(n.field)
		} else { // the form that the index of the metadata's values understands
			c.add("has(arrayMap(v -> lower(v), mapValues(", keysColumn(c.kind), ")), ")
			c.bind("String", value)
			c.add(")")
		}
		c.add(" AND ")
		defer c.add(")")
	}
	c.lowerValue(n.field)
	c.add(" = ")
	c.bind("String", value)
}

// compileID writes the search for a row. Parse has checked the id.
func compileID(c *compiler, text string) {
	id, _ := record.ParseRowID(text)
	c.add("(_shard = ")
	c.bind("UInt8", id.Shard)
	c.add(" AND _seq = ")
	c.bind("UInt64", id.Seq)
	c.add(" AND _idx = ")
	c.bind("UInt32", id.Idx)
	c.add(")")
}

func (n starts) compile(c *compiler) {
	if !isASCII(n.prefix) {
		c.matches(func() { c.value(n.field) }, foldPattern(`\A`, n.prefix, ""))
		return
	}
	c.add("startsWith(")
	c.lowerValue(n.field)
	c.add(", ")
	c.bind("String", lowerASCII(n.prefix))
	c.add(")")
}

func (n exists) compile(c *compiler) {
	switch n.field.kind {
	case idField:
		c.add("1")
	case keyField:
		c.hasKey(n.field)
	default:
		c.add(n.field.column, " != ''")
	}
}

// numberForm matches a number that comparisons understand.
const numberForm = `\A-?[0-9]{1,30}(\.[0-9]{1,30})?([eE][-+]?[0-9]{1,2})?\z`

func (n compares) compile(c *compiler) {
	c.add("(")
	if n.field.kind == severityField {
		c.add("severity_number > 0 AND severity_number")
	} else {
		c.matches(func() { c.value(n.field) }, numberForm)
		c.add(" AND toFloat64OrZero(")
		c.value(n.field)
		c.add(")")
	}
	switch n.operator { // what the SQL contains are constants, here too
	case "<":
		c.add(" < ")
	case "<=":
		c.add(" <= ")
	case ">":
		c.add(" > ")
	default:
		c.add(" >= ")
	}
	c.bind("Float64", n.number)
	c.add(")")
}

// isWordByte reports whether a byte belongs to a word: ASCII letters and digits,
// and every byte of a character beyond ASCII.
func isWordByte(c byte) bool {
	return c >= utf8.RuneSelf || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func splitWords(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r < utf8.RuneSelf && !isWordByte(byte(r)) })
}

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf })
}

// lowerASCII does what ClickHouse's lower() does: it changes 26 letters.
func lowerASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}
