package decode

import (
	"strings"
	"testing"

	"github.com/logboom/logboom/pkg/record"
)

func decodeRaw(body string, o Origin) ([]record.Log, Result) {
	var logs []record.Log
	result := NewDecoder(DefaultLimits()).Raw([]byte(body), defaults(), o, func(l *record.Log) { logs = append(logs, cloned(l)) })
	return logs, result
}

func TestRawBodyIsALogALine(t *testing.T) {
	t.Parallel()
	logs, result := decodeRaw("\xEF\xBB\xBFone\r\n\n  two \n \t\n{\"level\":\"warn\"}\n\xff last", Origin{})
	if datas(logs) != "one|  two |{\"level\":\"warn\"}|\uFFFD last" || result.Accepted != 4 || result.Timed {
		t.Fatalf("%q, %+v", datas(logs), result)
	}
	if logs[2].SeverityNumber != 13 || logs[0].Severity != "" || pairsText(logs[3].Metadata) != "_invalid_utf8=1" || logs[0].Timestamp != now.UnixNano() || logs[0].Application != "token-name" {
		t.Errorf("%+v", logs)
	}
}

func TestRawLinesHaveTheirRequestsOrigin(t *testing.T) {
	t.Parallel()
	logs, _ := decodeRaw("a\nb", Origin{Time: "1767319445", Host: "h", Source: "s\xff", SourceType: "t", Index: "i"})
	for _, l := range logs {
		if l.Timestamp != 1767319445e9 || l.Host != "h" || l.Source != "s\uFFFD" || pairsText(l.Metadata) != "sourcetype=t index=i" {
			t.Errorf("%+v", l)
		}
	}
	if len(logs) != 2 {
		t.Errorf("%d logs", len(logs))
	}
}

func TestRawLineAboveTheLimitDoesNotAffectItsNeighbours(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	for _, line := range []string{long, strings.Repeat("\xff", 9<<20)} {
		body := "a\n" + line + "\nb"
		logs, result := decodeRaw(body, Origin{})
		if datas(logs) != "a|b" || result.RejectedTotal != 1 || result.Rejected[0].Code != CodeBodyTooLarge || result.Rejected[0].Index != 1 {
			t.Fatalf("%q, %+v", datas(logs), result)
		}
		if r := result.Rejected[0]; body[r.Start:r.End] != line+"\n" {
			t.Errorf("the line is %d to %d", r.Start, r.End)
		}
	}
}

func TestRawBodyWithoutALineIsEmpty(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "\n\r\n  \n", "\xEF\xBB\xBF"} {
		_, result := decodeRaw(body, Origin{})
		if err, ok := result.Err().(*Error); !ok || err.Code != CodeEmptyBody {
			t.Errorf("%q: %v", body, result.Err())
		}
	}
}
