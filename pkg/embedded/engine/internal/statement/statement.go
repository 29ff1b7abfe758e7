// Package statement finds in the text of a ClickHouse statement what the HTTP
// front must know before the engine runs it: where the head of an INSERT ends
// and its rows begin, which format the rows have, and which format a query
// requests.
//
// It is not a parser and refuses nothing. Text that it does not recognise goes
// to the engine unchanged, and the engine's parser decides.
package statement

import "strings"

// Insert is an INSERT whose text contains its rows.
type Insert struct {
	Head   string // the text before FORMAT or VALUES, with all SETTINGS
	Format string // of the rows
	Data   int    // where the rows begin in the text
}

// ParseInsert returns false if the text is not an INSERT with rows, as
// INSERT … SELECT.
func ParseInsert(text string) (Insert, bool) {
	s := scanner{text: text}
	if !s.next().is("INSERT") {
		return Insert{}, false
	}
	t := s.skipTarget()
	for ; t.kind != end; t = s.next() {
		switch {
		case t.is("VALUES"):
			return Insert{Head: text[:t.start], Format: "Values", Data: s.pos}, true
		case t.is("FORMAT"):
			return s.insertFormat(text[:t.start])
		case t.is("SELECT"), t.is("WITH"), t.is("FROM"), t.is("WATCH"):
			return Insert{}, false
		case t.symbol('('):
			if inner := s.peek(); inner.is("SELECT") || inner.is("WITH") {
				return Insert{}, false
			}
			s.skipGroup()
		}
	}
	return Insert{}, false
}

// skipTarget skips `[INTO] [TABLE] [FUNCTION] name[.name]`, because a table may
// be called `values`, and returns the token after it.
func (s *scanner) skipTarget() token {
	t := s.next()
	for _, word := range []string{"INTO", "TABLE", "FUNCTION"} {
		if t.is(word) {
			t = s.next()
		}
	}
	for t = s.next(); t.symbol('.'); t = s.next() {
		s.next()
	}
	return t
}

// insertFormat reads what follows FORMAT: the name, possibly SETTINGS, and at
// most one line break, which belongs to the statement and not to the rows.
func (s *scanner) insertFormat(head string) (Insert, bool) {
	name := s.next()
	if name.kind != word && name.kind != quoted {
		return Insert{}, false
	}
	start := s.pos
	if s.skipSettings() {
		head += s.text[start:s.pos]
	}
	rest := strings.TrimLeft(s.text[s.pos:], " \t\f")
	rest = strings.TrimPrefix(rest, "\r")
	rest = strings.TrimPrefix(rest, "\n")
	return Insert{Head: head, Format: name.unquoted(), Data: len(s.text) - len(rest)}, true
}

// skipSettings skips `SETTINGS name = value, …`. If there is none, it does not
// move and returns false.
func (s *scanner) skipSettings() bool {
	before := s.pos
	if !s.next().is("SETTINGS") {
		s.pos = before
		return false
	}
	for {
		name, equals, value := s.next(), s.next(), s.next()
		if value.symbol('-') {
			value = s.next()
		}
		if name.kind != word || !equals.symbol('=') || value.kind == end {
			s.pos = before
			return false
		}
		if !s.peek().symbol(',') {
			return true
		}
		s.next()
	}
}

// OutputFormat returns the format of a FORMAT clause at the end of a query, or
// an empty string if there is none.
func OutputFormat(text string) string {
	s := scanner{text: text}
	for t := s.next(); t.kind != end; t = s.next() {
		switch {
		case t.symbol('('):
			s.skipGroup()
		case t.is("FORMAT"):
			if name, ok := s.lastClause(); ok {
				return name
			}
		}
	}
	return ""
}

// lastClause reads the name after FORMAT if only settings follow it. Otherwise
// the word FORMAT was an identifier.
func (s *scanner) lastClause() (string, bool) {
	before := s.pos
	name := s.next()
	s.skipSettings()
	t := s.next()
	for t.symbol(';') {
		t = s.next()
	}
	if t.kind == end && (name.kind == word || name.kind == quoted) {
		return name.unquoted(), true
	}
	s.pos = before
	return "", false
}

// ReturnsRows reports whether a statement is a SELECT. The engine can stream the
// result only of these.
func ReturnsRows(text string) bool {
	s := scanner{text: text}
	t := s.next()
	for t.symbol('(') {
		t = s.next()
	}
	return t.is("SELECT") || t.is("WITH")
}

// TouchesFiles reports whether a statement reads from or writes to a file, as
// INTO OUTFILE does. Grants do not prevent that, because the library opens such
// a file itself, as the command-line client does.
func TouchesFiles(text string) bool {
	s := scanner{text: text}
	for t := s.next(); t.kind != end; t = s.next() {
		if !t.is("INTO") && !t.is("FROM") {
			continue
		}
		before := s.pos
		if to := s.next(); (to.is("OUTFILE") || to.is("INFILE")) && s.peek().kind == literal {
			return true
		}
		s.pos = before
	}
	return false
}
