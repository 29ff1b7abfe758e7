package decode

import (
	"testing"
)

func TestSeverityWordIsFreedOfItsFrame(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"Warning", "[Warning]", " Warning: ", "\t::[[Warning]]\n"} {
		if got := severityWord(text); got != "Warning" {
			t.Errorf("%q: %q", text, got)
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
