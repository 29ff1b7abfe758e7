package query

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/logboom/logboom/pkg/record"
)

// node is a part of a query's tree. What it writes as SQL and what it answers
// about a record in memory are the same question, held together by a test
// against ClickHouse.
type node interface {
	write(c *compiler)
	match(r *Record) bool
}

type (
	all    struct{}
	not    struct{ of node }
	both   struct{ of []node } // AND
	either struct{ of []node } // OR
)

// The terms. Texts without characters beyond ASCII are kept in lower case and
// compared in lower case; fold, where it is not nil, takes the place of that.
type (
	// phrase is one word or several that follow each other in a text.
	phrase struct {
		kind    record.Kind
		words   []string
		pattern *regexp.Regexp // of the whole phrase, for lower-cased texts
		plain   bool           // one word, which hasToken finds by itself
		folds   bool           // the pattern folds cases itself
	}
	contains struct {
		kind record.Kind
		text string
		fold *regexp.Regexp
	}
	matches struct {
		kind    record.Kind
		pattern *regexp.Regexp
	}
	equals struct {
		kind  record.Kind
		field field
		text  string
		fold  *regexp.Regexp
	}
	starts struct {
		kind  record.Kind
		field field
		text  string
		fold  *regexp.Regexp
	}
	exists struct {
		kind  record.Kind
		field field
	}
	compares struct {
		kind     record.Kind
		field    field
		operator string
		number   float64
	}
	identity struct {
		shard uint8
		seq   uint64
		idx   uint32
	}
)

const (
	breakClass = `[^0-9A-Za-z\x{80}-\x{10FFFF}]`
)

// newPhrase is the phrase of the words; with prefix, the last may go on.
func newPhrase(kind record.Kind, words []string, prefix bool) node {
	folds := false
	quoted := make([]string, len(words))
	for i, word := range words {
		folds = folds || !isASCII(word)
		words[i] = lowerASCII(word)
		quoted[i] = regexp.QuoteMeta(words[i])
	}
	pattern := `(?:\A|` + breakClass + `)` + strings.Join(quoted, breakClass+`+`)
	if !prefix {
		pattern += `(?:` + breakClass + `|\z)`
	}
	if folds {
		pattern = `(?i)` + pattern
	}
	whole := words
	if prefix {
		whole = words[:len(words)-1]
	}
	if folds {
		whole = nil
	}
	return phrase{kind: kind, words: whole, pattern: regexp.MustCompile(pattern), plain: len(whole) == 1 && !prefix, folds: folds}
}

// foldOf is a pattern for a text that is more than ASCII, nil for others.
func foldOf(text, before, after string) *regexp.Regexp {
	if isASCII(text) {
		return nil
	}
	return regexp.MustCompile(`(?i)` + before + regexp.QuoteMeta(text) + after)
}

func newContains(kind record.Kind, text string) node {
	return contains{kind, lowerASCII(text), foldOf(text, "", "")}
}

func newEquals(kind record.Kind, f field, text string) node {
	return equals{kind, f, lowerASCII(text), foldOf(text, `\A`, `\z`)}
}

func newStarts(kind record.Kind, f field, text string) node {
	return starts{kind, f, lowerASCII(text), foldOf(text, `\A`, "")}
}

// innerWords are the words that a text has between other characters: wherever
// the text is, those are whole words, which the index knows.
func innerWords(text string) []string {
	first, last := 0, len(text)
	for first < last && isWordByte(text[first]) {
		first++
	}
	for last > first && isWordByte(text[last-1]) {
		last--
	}
	return cutWords(text[first:last])
}

// parseIdentity reads an id as the API shows it: <shard>-<sequence>-<position>.
func parseIdentity(text string) (identity, bool) {
	shard, rest, _ := strings.Cut(text, "-")
	seq, idx, _ := strings.Cut(rest, "-")
	s, errShard := strconv.ParseUint(shard, 10, 8)
	q, errSeq := strconv.ParseUint(seq, 10, 64)
	i, errIdx := strconv.ParseUint(idx, 10, 32)
	return identity{uint8(s), q, uint32(i)}, errShard == nil && errSeq == nil && errIdx == nil
}
