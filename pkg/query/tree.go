package query

import (
	"regexp"
	"strings"
	"unicode"
)

// node is a part of a query's tree.
type node interface {
	compile(c *compiler) // writes the node as SQL
	text() string        // prints the node in the query language
}

// What joins and negates terms.
type (
	and struct{ of []node } // two or more
	or  struct{ of []node } // two or more
	not struct {
		sign string // how it is written: -, NOT, or != between a field and its values
		of   node
	}
)

// The terms that search a record's texts.
type (
	all    struct{}               // *
	phrase struct{ typed string } // words that follow each other; with a * at the end, the last one may go on
	quoted struct{ body string }  // a text anywhere
	// expression is a regular expression in RE2's syntax, without its slashes.
	expression struct{ pattern string }
)

// The terms that test a field.
type (
	// fieldTerm is field:value. Its node holds equals, starts and exists of the
	// same field, for field:(a OR b) joined by or, and and not.
	fieldTerm struct {
		field  field
		values node
	}
	equals struct {
		field field
		value string
	}
	starts struct {
		field  field
		prefix string
	}
	exists   struct{ field field }
	compares struct {
		field    field
		operator string
		typed    string // the number or severity word, as it is written
		number   float64
	}
)

func (all) text() string          { return "*" }
func (n phrase) text() string     { return n.typed }
func (n quoted) text() string     { return quote(n.body) }
func (n expression) text() string { return "/" + strings.ReplaceAll(n.pattern, "/", `\/`) + "/" }
func (n equals) text() string     { return PrintValue(n.value) }
func (n starts) text() string     { return n.prefix + "*" }
func (exists) text() string       { return "*" }
func (n compares) text() string   { return n.field.typed + n.operator + n.typed }
func (n fieldTerm) text() string  { return n.field.typed + ":" + inParentheses(n.values, true) }

func (n and) text() string { return joinTexts(n.of, " ", false) }
func (n or) text() string  { return joinTexts(n.of, " OR ", true) }

func joinTexts(of []node, separator string, andIsPlain bool) string {
	texts := make([]string, len(of))
	for i, one := range of {
		if _, isAnd := one.(and); isAnd && andIsPlain {
			texts[i] = one.text()
			continue
		}
		texts[i] = inParentheses(one, false)
	}
	return strings.Join(texts, separator)
}

func (n not) text() string {
	if term, ok := n.of.(fieldTerm); ok && n.sign == "!=" {
		return term.field.typed + "!=" + inParentheses(term.values, true)
	}
	text := inParentheses(n.of, false)
	switch {
	case n.sign == "NOT":
		return "NOT " + text
	case strings.HasPrefix(text, "-"): // two dashes are text
		return "-(" + text + ")"
	}
	return "-" + text
}

// inParentheses prints a node, in parentheses where it joins others. The values
// of a field need them around a negation too.
func inParentheses(n node, ofField bool) string {
	switch n.(type) {
	case and, or:
		return "(" + n.text() + ")"
	case not:
		if ofField {
			return "(" + n.text() + ")"
		}
	}
	return n.text()
}

// PrintValue prints a value of a field: as it is where it reads as that value,
// else in quotes.
func PrintValue(value string) string {
	special := strings.ContainsFunc(value, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune(`"()*`, r)
	})
	if value == "" || special || value[0] == '-' || strings.HasPrefix(value, "//") || isKeyword(value) {
		return quote(value)
	}
	return value
}

func quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// Marker returns an expression that finds, in a record's texts, the words and
// texts that the query searches for. It returns nil where there are none.
func (q Query) Marker() *regexp.Regexp {
	var patterns []string
	var collect func(n node)
	collect = func(n node) {
		switch n := n.(type) {
		case and:
			for _, one := range n.of {
				collect(one)
			}
		case or:
			for _, one := range n.of {
				collect(one)
			}
		case phrase:
			patterns = append(patterns, regexp.QuoteMeta(strings.TrimSuffix(n.typed, "*")))
		case quoted:
			patterns = append(patterns, regexp.QuoteMeta(n.body))
		}
	}
	collect(q.root)
	if len(patterns) == 0 {
		return nil
	}
	found, err := regexp.Compile("(?i)" + strings.Join(patterns, "|"))
	if err != nil {
		return nil // an edit added a text that is not UTF-8
	}
	return found
}
