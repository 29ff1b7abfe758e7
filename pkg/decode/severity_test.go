package decode

import (
	"fmt"
	"strings"
	"testing"

	"github.com/logboom/logboom/pkg/record"
)

func TestSeverityWordIsTrimmed(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"Warning", "[Warning]", " Warning: ", "\t::[[Warning]]\n"} {
		if got := severityWord(text); got != "Warning" {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestSchemesDefineBareNumbers(t *testing.T) {
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

func lineLevel(line string) string {
	f := levelFinder{scan: scanner{depth: 64, textLimit: jsonWithin}}
	number, word := f.severity(line)
	return fmt.Sprintf("%d %s", number, word)
}

func TestLineNamesItsSeverity(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		// JSON
		`{"level":"info","msg":"error"}`:                   "9 info",
		`{"ts":1,"nested":{"level":"error"},"lvl":"WARN"}`: "13 WARN",
		`{"severity":"CRITICAL"}`:                          "18 CRITICAL",
		`{"@level":"\u0077arn"}`:                           "13 warn",
		`{"log.level":"fatal","a":"b"}`:                    "21 fatal",
		`{"level":"custom","severity":"notice"}`:           "10 notice",
		`{"level":30,"msg":"error"}`:                       "0 ",
		`{"msg":"an error"}`:                               "0 ",
		`  {"level":"[debug]"}`:                            "5 debug",
		`{"broken": level=error`:                           "17 error",
		// syslog
		"<0>panic":           "21 emerg",
		"<11>msg":            "17 err",
		"<14>INFO":           "9 info",
		"<191>x":             "5 debug",
		"<192>x y":           "0 ",
		"<>x y z":            "0 ",
		"<12 x> nothing":     "0 ",
		"<html>":             "0 ",
		"<error> of the xml": "17 error",
		// klog
		"I0102 15:04:05.000000       1 main.go:7] started": "9 INFO",
		"W1231 23:59:59.1 1 x.go:1] slow":                  "13 WARNING",
		"E0102 15:04:05.000000 1 x.go:1] no":               "17 ERROR",
		"F0102 15:04:05.000000 1 x.go:1] no":               "21 FATAL",
		"E0102 15-04-05 no klog":                           "0 ",
		// logfmt
		`ts=1 level=warn msg="error"`:             "13 warn",
		`time="2026-01-02" level="error" msg=x`:   "17 error",
		`lvl=dbg x=1`:                             "5 dbg",
		`LEVEL=Info x`:                            "9 Info",
		`sublevel=error x=1`:                      "0 ",
		`level=7 x=1`:                             "0 ",
		`err=nil`:                                 "0 ",
		strings.Repeat("a=b ", 100) + "level=err": "17 err",
		// words
		"2026-01-02 03:04:05,678 ERROR [main] c.e.App: no": "17 ERROR",
		"2026-01-02T03:04:05Z INFO starting":               "9 INFO",
		"2026/01/02 03:04:05 [error] 29#29: *1 open()":     "17 error",
		"[warn] x":                      "13 warn",
		"[ Notice ] x":                  "10 Notice",
		"(debug) x":                     "5 debug",
		"[E] x":                         "17 E",
		"[d] x":                         "0 ",
		"Error: no such file":           "17 Error",
		"warning: deprecated":           "13 warning",
		"fatal: not a git repository":   "21 fatal",
		"\x1b[31mERROR\x1b[0m no":       "17 ERROR",
		"10:00 \x1b[1;33mwarn\x1b[0m x": "13 warn",
		"INF started":                   "9 INF",
		"081109 203518 143 INFO dfs.DataNode$PacketResponder: x": "9 INFO",
		"error while opening; INFO follows":                      "9 INFO",
		"it ends with an error":                                  "17 error",
		"it ends with an error.":                                 "17 error",
		// none
		"":                                      "0 ",
		"plain line 1":                          "0 ",
		"terror and mirrors":                    "0 ",
		"errors: 0":                             "0 ",
		"an ERROR_CODE":                         "0 ",
		"/var/log/error/x":                      "0 ",
		"com.example.error.Handler ran":         "0 ",
		"all is fine, thanks":                   "0 ",
		"i d e w f":                             "0 ",
		"A B C D E F":                           "0 ",
		"größerror":                             "0 ",
		strings.Repeat("x", 60) + " ERROR late": "0 ",
		strings.Repeat("x", 58) + " ERROR late": "17 ERROR",
		strings.Repeat("x", 59) + " ERROR late": "0 ",
	} {
		if got := lineLevel(line); got != want {
			t.Errorf("%.80q: %s, not %s", line, got, want)
		}
	}
}

func TestNoLevelWordIsRuledOut(t *testing.T) {
	t.Parallel()
	for _, word := range strings.Fields("trace trce finest verbose vrb debug dbg fine d info information informational inf i notice warn warning wrn w " +
		"error err severe e critical crit dpanic alert panic fatal ftl emerg emergency f") {
		if !couldBeLevel(word) || !couldBeLevel(strings.ToUpper(word)) || record.SeverityNumber(word) == 0 {
			t.Errorf("%s is passed over", word)
		}
	}
}
