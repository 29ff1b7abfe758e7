package record

import (
	"slices"
	"strings"
	"testing"
)

func TestSeverityWordsHaveTheirNumbers(t *testing.T) {
	t.Parallel()
	for number, words := range map[uint8]string{
		1:  "trace trce finest verbose vrb",
		5:  "debug dbg fine d",
		9:  "info information informational inf i",
		10: "notice",
		13: "warn warning wrn w",
		17: "error err severe e",
		18: "critical crit dpanic",
		19: "alert panic",
		21: "fatal ftl emerg emergency f",
		0:  "stdout stderr 3 30 -1 3.0 informationally xinfo éé \u212A none loud warnin fatality",
	} {
		for word := range strings.FieldsSeq(words) {
			for _, text := range []string{word, strings.ToUpper(word), strings.ToUpper(word[:1]) + word[1:]} {
				if got := SeverityNumber(text); got != number {
					t.Errorf("%q: got %d, want %d", text, got, number)
				}
			}
		}
	}
}

func TestEachSeverityNumberHasALevel(t *testing.T) {
	t.Parallel()
	levels := SeverityLevels()
	for number := range uint8(26) {
		level := SeverityLevel(number)
		if known := 1 <= number && number <= 24; known != slices.Contains(levels, level) {
			t.Errorf("%d: level %q", number, level)
		}
		if named := SeverityNumber(level); named != 0 && SeverityLevel(named) != level {
			t.Errorf("the level %s has the number %d, which has another level", level, named)
		}
	}
}
