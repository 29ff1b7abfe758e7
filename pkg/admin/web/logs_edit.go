package web

import (
	"slices"
	"strings"
	"unicode"

	"github.com/logboom/logboom/pkg/query"
	"github.com/logboom/logboom/pkg/record"
)

// Facets, values and the chart's legend edit the query's text. A text is cut
// into its top-level terms; those that name one field and its values are
// understood, all others are carried along as they are.

// term is a top-level term of a query.
type term struct {
	text    string   // as written
	field   string   // its canonical name; "" where the term is another form
	values  []string // of field:value and field:(a OR b)
	least   string   // of severity>=word
	negated bool
}

// cutTerms cuts a query that was parsed into its top-level terms. Where OR
// stands between them there is one, the whole in parentheses.
func cutTerms(kind record.Kind, text string) []term {
	tokens := query.Tokens(kind, text)
	var list []term
	for at := 0; at < len(tokens); {
		word := text[tokens[at].From:tokens[at].To]
		if tokens[at].Kind == query.Operator && word == "OR" {
			return []term{{text: "(" + strings.TrimSpace(text) + ")"}}
		}
		if tokens[at].Kind == query.Operator && word == "AND" {
			at++
			continue
		}
		end := termEnd(text, tokens, at)
		list = append(list, readTerm(kind, text, tokens[at:end]))
		at = end
	}
	return list
}

// termEnd is the token behind the term that begins at one.
func termEnd(text string, tokens []query.Token, at int) int {
	for at < len(tokens) && isDenial(text, tokens[at]) {
		at++
	}
	if at < len(tokens) && tokens[at].Kind == query.FieldName {
		at += 2 // the name and its operator
	}
	depth := 0
	for ; at < len(tokens); at++ {
		if tokens[at].Kind == query.Operator {
			switch text[tokens[at].From:tokens[at].To] {
			case "(":
				depth++
			case ")":
				depth--
			}
		}
		if depth <= 0 {
			return at + 1
		}
	}
	return len(tokens)
}

func isDenial(text string, t query.Token) bool {
	word := text[t.From:t.To]
	return t.Kind == query.Operator && (word == "-" || word == "NOT")
}

// readTerm understands a term as far as it names values of one field.
func readTerm(kind record.Kind, text string, tokens []query.Token) term {
	t := term{text: text[tokens[0].From:tokens[len(tokens)-1].To]}
	denials := 0
	for denials < len(tokens) && isDenial(text, tokens[denials]) {
		denials++
	}
	rest := tokens[denials:]
	if denials > 1 || len(rest) < 3 || rest[0].Kind != query.FieldName {
		return t
	}
	word := func(i int) string { return text[rest[i].From:rest[i].To] }
	field, operator := canonicalField(kind, word(0)), word(1)
	t.negated = (denials == 1) != (operator == "!=")
	if operator == ">=" && field == "severity" && len(rest) == 3 && denials == 0 {
		t.field, t.least = field, strings.ToLower(word(2))
		return t
	}
	if operator != ":" && operator != "!=" {
		return t
	}
	var values []string
	for i := 2; i < len(rest); i++ {
		switch rest[i].Kind {
		case query.Value:
			if strings.HasSuffix(word(i), "*") {
				return t
			}
			values = append(values, word(i))
		case query.Text:
			values = append(values, unquoted(word(i)))
		default:
			if !slices.Contains([]string{"(", ")", "OR"}, word(i)) {
				return t
			}
		}
	}
	t.field, t.values = field, values
	return t
}

// canonicalField is one name for each field: the own ones in full, keys bare.
func canonicalField(kind record.Kind, name string) string {
	pairs, own := "metadata.", map[string]string{"app": "application", "application": "application", "level": "severity", "severity": "severity", "host": "host", "source": "source", "id": "id"}
	if kind == record.KindEvent {
		pairs, own = "tags.", map[string]string{"channel": "channel", "title": "title", "description": "description", "id": "id"}
	}
	if key, ok := own[strings.ToLower(name)]; ok {
		return key
	}
	if len(name) > len(pairs) && strings.EqualFold(name[:len(pairs)], pairs) {
		name = name[len(pairs):]
		if strings.HasPrefix(name, `"`) {
			name = unquoted(name)
		}
		return pairs + name
	}
	return pairs + name
}

// joinTerms is the query of the terms.
func joinTerms(terms []term) string {
	texts := make([]string, 0, len(terms))
	for _, t := range terms {
		if t.text != "" {
			texts = append(texts, t.text)
		}
	}
	return strings.Join(texts, " ")
}

// pick asks for a value of a field too, or no longer where it is asked for.
func pick(kind record.Kind, text, field, value string) string {
	terms := cutTerms(kind, text)
	found := false
	for i, t := range terms {
		if t.field != field || t.least != "" {
			continue
		}
		if t.negated {
			terms[i].text = writeTerm(field, without(t.values, value), true)
			continue
		}
		if found = true; slices.Contains(t.values, value) {
			terms[i].text = writeTerm(field, without(t.values, value), false)
		} else {
			terms[i].text = writeTerm(field, append(t.values, value), false)
		}
	}
	if !found {
		terms = append(terms, term{text: writeTerm(field, []string{value}, false)})
	}
	return joinTerms(terms)
}

// shun keeps a value of a field out, or no longer where it is kept out.
func shun(kind record.Kind, text, field, value string) string {
	terms := cutTerms(kind, text)
	found := false
	for i, t := range terms {
		if t.field != field || t.least != "" {
			continue
		}
		if t.negated && slices.Contains(t.values, value) {
			found = true
		}
		terms[i].text = writeTerm(field, without(t.values, value), t.negated)
	}
	if !found {
		terms = append(terms, term{text: writeTerm(field, []string{value}, true)})
	}
	return joinTerms(terms)
}

// withoutField leaves out what the query says of a field: by that, the field's
// own values are counted.
func withoutField(kind record.Kind, text, field string) string {
	terms := slices.DeleteFunc(cutTerms(kind, text), func(t term) bool { return t.field == field })
	return joinTerms(terms)
}

// withText looks for a text as well.
func withText(kind record.Kind, text, sought string) string {
	return joinTerms(append(cutTerms(kind, text), term{text: quoted(sought)}))
}

// chosen are the values of a field that a query asks for, and those that it
// keeps out.
func chosen(kind record.Kind, text, field string) (in, out []string) {
	for _, t := range cutTerms(kind, text) {
		switch {
		case t.field != field:
		case t.negated:
			out = append(out, t.values...)
		case t.least != "":
			in = append(in, severitiesFrom(t.least)...)
		default:
			in = append(in, t.values...)
		}
	}
	return in, out
}

// pickSeverity is pick for severities: severity>=warn becomes the words that it
// stands for before one of them is taken out.
func pickSeverity(text, value string) string {
	in, _ := chosen(record.KindLog, text, "severity")
	if slices.Contains(in, value) {
		in = without(in, value)
	} else {
		in = append(in, value)
	}
	terms := slices.DeleteFunc(cutTerms(record.KindLog, text), func(t term) bool { return t.field == "severity" && !t.negated })
	if len(in) > 0 {
		terms = append(terms, term{text: writeTerm("severity", in, false)})
	}
	return joinTerms(terms)
}

// without is the list without a value, without repeats of it.
func without(list []string, value string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(one string) bool { return one == value })
}

// writeTerm writes values of a field; nothing where there are none.
func writeTerm(field string, values []string, negated bool) string {
	if len(values) == 0 {
		return ""
	}
	shown := make([]string, len(values))
	for i, value := range values {
		shown[i] = writeValue(value)
	}
	text := writeField(field) + ":" + shown[0]
	if len(shown) > 1 {
		text = writeField(field) + ":(" + strings.Join(shown, " OR ") + ")"
	}
	if negated {
		return "-" + text
	}
	return text
}

// writeField is a field's name as people write it.
func writeField(field string) string {
	if field == "application" {
		return "app"
	}
	prefix, key, found := strings.Cut(field, ".")
	if !found || prefix != "metadata" && prefix != "tags" {
		return field
	}
	kind := record.KindLog
	if prefix == "tags" {
		kind = record.KindEvent
	}
	for _, form := range []string{key, field} {
		if readsAs(kind, form, field) {
			return form
		}
	}
	return prefix + "." + quoted(key)
}

// readsAs tells whether a name stands for the field where a query says name:x.
func readsAs(kind record.Kind, name, field string) bool {
	tokens := query.Tokens(kind, name+":x")
	return len(tokens) == 3 && tokens[0].Kind == query.FieldName && tokens[0].To == len(name) && canonicalField(kind, name) == field
}

// writeValue is a value as people write it: bare where that means the same.
func writeValue(value string) string {
	plain := value != "" && !strings.ContainsFunc(value, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune(`"()*\`, r)
	})
	if plain && !slices.Contains([]string{"AND", "OR", "NOT"}, value) {
		return value
	}
	return quoted(value)
}

// quoted is a text as a query has it.
func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\x00", "").Replace(text) + `"`
}

// unquoted reads what quoted wrote.
func unquoted(text string) string {
	body := strings.TrimSuffix(strings.TrimPrefix(text, `"`), `"`)
	return strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(body)
}

// severityWords are the severities that people choose from, the worst first.
var severityWords = record.SeverityLevels()

// severitiesFrom are the severities from one on, worse ones too.
func severitiesFrom(least string) []string {
	if at := slices.Index(severityWords, least); at >= 0 {
		return slices.Clone(severityWords[:at+1])
	}
	return nil
}
