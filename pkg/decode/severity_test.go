package decode

import (
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
		0:  "stdout stderr 3 30 -1 3.0 informationally xinfo éé \u212A none",
	} {
		for word := range strings.FieldsSeq(words) {
			for _, text := range []string{word, strings.ToUpper(word), "[" + word + "]", " " + word + ": ", "\t::[[" + word + "]]\n"} {
				if got := severityNumber(severityWord(text)); got != number {
					t.Errorf("%q: got %d, want %d", text, got, number)
				}
			}
		}
	}
}

func TestSchemesGiveBareNumbersAMeaning(t *testing.T) {
	t.Parallel()
	for scheme, numbers := range map[string]map[string]uint8{
		"syslog": {"0": 21, "1": 19, "2": 18, "3": 17, "4": 13, "5": 10, "6": 9, "7": 5, "8": 0, "07": 5, "-1": 0, "": 0},
		"otel":   {"0": 0, "1": 1, "9": 9, "24": 24, "25": 0, "240": 0},
		"Pino":   {"10": 1, "20": 5, "30": 9, "40": 13, "50": 17, "60": 21, "35": 0, "70": 0, "0": 0},
		"other":  {"3": 0},
		"":       {"3": 0},
	} {
		for word, want := range numbers {
			if got := schemeNumber(word, scheme); got != want {
				t.Errorf("%s %s: got %d, want %d", scheme, word, got, want)
			}
		}
	}
}
