package decode

import (
	"strings"

	"github.com/logboom/logboom/pkg/record"
)

// levelWord finds a level word in the first bytes of a line. One in brackets or
// capitals is meant as a level; one in small letters may be prose, so it counts
// only where there is no other.
func levelWord(line string) (number uint8, word string) {
	for i := 0; i < min(len(line), levelWithin); {
		c := line[i]
		if !isLetter(c) {
			i += max(1, escapeSequence(line[i:]))
			continue
		}
		end := i + 1
		for end < len(line) && isLetter(line[end]) {
			end++
		}
		if end > levelWithin {
			break
		}
		if couldBeLevel(line[i:end]) {
			n, strong := judgeWord(line, i, end)
			if strong {
				return n, line[i:end]
			}
			if n != 0 && number == 0 {
				number, word = n, line[i:end]
			}
		}
		i = end
	}
	return number, word
}

// levelLengths has, by first letter, a bit for each length that a level word
// has: most words of a line are told apart by it alone.
var levelLengths = ['z' - 'a' + 1]uint16{
	0:         1 << 5, // a
	'c' - 'a': 1<<4 | 1<<8,
	'd' - 'a': 1<<1 | 1<<3 | 1<<5 | 1<<6,
	'e' - 'a': 1<<1 | 1<<3 | 1<<5 | 1<<9,
	'f' - 'a': 1<<1 | 1<<3 | 1<<4 | 1<<5 | 1<<6,
	'i' - 'a': 1<<1 | 1<<3 | 1<<4 | 1<<11 | 1<<13,
	'n' - 'a': 1 << 6,
	'p' - 'a': 1 << 5,
	's' - 'a': 1 << 6,
	't' - 'a': 1<<4 | 1<<5,
	'v' - 'a': 1<<3 | 1<<7,
	'w' - 'a': 1<<1 | 1<<3 | 1<<4 | 1<<7,
}

func couldBeLevel(word string) bool {
	return len(word) <= record.MaxSeverityBytes && levelLengths[word[0]|0x20-'a']&(1<<len(word)) != 0
}

// judgeWord is the number of the word at line[from:end], 0 where it is no level
// there. strong says that it is meant as one.
func judgeWord(line string, from, end int) (number uint8, strong bool) {
	word := line[from:end]
	number = record.SeverityNumber(word)
	if number == 0 || touches(line, from, end) {
		return 0, false
	}
	capitals := isCapitals(word)
	bracketed := inBrackets(line, from, end)
	switch {
	case len(word) == 1 && !(bracketed && capitals):
		return 0, false
	case bracketed || capitals:
		return number, true
	case joins(line, from, end) || isProse(word):
		return 0, false
	}
	return number, false
}

func isCapitals(word string) bool {
	for i := range len(word) {
		if word[i] > 'Z' {
			return false
		}
	}
	return true
}

// touches says whether the word is only a part of one.
func touches(line string, from, end int) bool {
	before, after := around(line, from, end)
	return isWordByte(after) || isWordByte(before) && !endsEscape(line[:from])
}

func isWordByte(c byte) bool { return isLetter(c) || isDigit(c) || c == '_' || c >= 0x80 }

// endsEscape says whether text ends in an ANSI sequence, whose last letter is
// none of the word after it.
func endsEscape(text string) bool {
	at := strings.LastIndexByte(text, 0x1b)
	return at >= 0 && escapeSequence(text[at:]) == len(text)-at
}

// joins says whether the word is a part of a path, a name or a pair.
func joins(line string, from, end int) bool {
	const marks = `./\-=@`
	before, after := around(line, from, end)
	if after == '.' && (end+1 == len(line) || line[end+1] == ' ') {
		after = ' ' // the end of a sentence
	}
	return strings.IndexByte(marks, before) >= 0 || strings.IndexByte(marks, after) >= 0
}

// around is the bytes beside the word, spaces at the line's ends.
func around(line string, from, end int) (before, after byte) {
	before, after = ' ', ' '
	if from > 0 {
		before = line[from-1]
	}
	if end < len(line) {
		after = line[end]
	}
	return before, after
}

// inBrackets says whether nothing but the word is between brackets.
func inBrackets(line string, from, end int) bool {
	for from > 0 && line[from-1] == ' ' {
		from--
	}
	for end < len(line) && line[end] == ' ' {
		end++
	}
	if from == 0 || end == len(line) {
		return false
	}
	switch line[from-1] {
	case '[':
		return line[end] == ']'
	case '(':
		return line[end] == ')'
	case '<':
		return line[end] == '>'
	}
	return false
}

// isProse tells level words that are more often meant otherwise.
func isProse(word string) bool {
	return isOneOf(word, "fine", "finest", "severe", "verbose", "information", "informational")
}
