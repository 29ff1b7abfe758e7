package decode

import (
	"fmt"
	"strings"
	"testing"
)

// stderrEvent is one of a container's other output.
func stderrEvent(line, tag, second string) string {
	return strings.Replace(dockerEvent(line, tag, second), `"stdout"`, `"stderr"`, 1)
}

// dockerEvent is one as Docker sends it.
func dockerEvent(line, tag, second string) string {
	return fmt.Sprintf(`{"event":{"line":%s,"source":"stdout","tag":"%s"},"time":"17673194%s.123457","host":"vm"}`, quoted(line), tag, second)
}

func TestPiecesOfALongLineAreJoined(t *testing.T) {
	t.Parallel()
	full, rest := strings.Repeat("f", pieceBytes), "the rest"
	for name, test := range map[string]struct {
		events []string
		want   []string
	}{
		"two":                 {[]string{dockerEvent(full, "t", "45"), dockerEvent(rest, "t", "45")}, []string{full + rest}},
		"four":                {[]string{dockerEvent(full, "t", "45"), dockerEvent(full, "t", "45"), dockerEvent(full, "t", "45"), dockerEvent(rest, "t", "45")}, []string{full + full + full + rest}},
		"one and no more":     {[]string{dockerEvent(full, "t", "45")}, []string{full}},
		"of another time":     {[]string{dockerEvent(full, "t", "45"), dockerEvent(rest, "t", "44")}, []string{full, rest}},
		"of another tag":      {[]string{dockerEvent(full, "t", "45"), dockerEvent(rest, "u", "45")}, []string{full, rest}},
		"a byte short":        {[]string{dockerEvent(full[1:], "t", "45"), dockerEvent(rest, "t", "45")}, []string{full[1:], rest}},
		"a byte long":         {[]string{dockerEvent(full+"x", "t", "45"), dockerEvent(rest, "t", "45")}, []string{full + "x", rest}},
		"not next to another": {[]string{dockerEvent(full, "t", "45"), dockerEvent("between", "t", "44"), dockerEvent(rest, "t", "45")}, []string{full, "between", rest}},
		"stderr between":      {[]string{dockerEvent(full, "t", "45"), stderrEvent("between", "t", "45"), dockerEvent(rest, "t", "45")}, []string{"between", full + rest}},
		"both mixed":          {[]string{dockerEvent(full, "t", "45"), stderrEvent(full, "t", "46"), dockerEvent(rest, "t", "45"), stderrEvent("other", "t", "46")}, []string{full + rest, full + "other"}},
		"both without an end": {[]string{stderrEvent(full, "t", "46"), dockerEvent(full, "t", "45")}, []string{full, full}},
		"a bad one between":   {[]string{dockerEvent(full, "t", "45"), `{"event":""}`, dockerEvent(rest, "t", "45")}, []string{full, rest}},
		"two lines":           {[]string{dockerEvent(full, "t", "45"), dockerEvent(rest, "t", "45"), dockerEvent(rest, "t", "45")}, []string{full + rest, rest}},
		"without a time":      {[]string{`{"event":{"line":"` + full + `"}}`, `{"event":{"line":"rest"}}`}, []string{full, "rest"}},
		"a character cut":     {[]string{dockerEvent(full[2:]+"\uFFFD\uFFFD", "t", "45"), dockerEvent("\uFFFD\uFFFD"+full[2:], "t", "45"), dockerEvent(rest, "t", "45")}, []string{full[2:] + strings.Repeat("\uFFFD", 4) + full[2:] + rest}},
		"raw with a tag": {[]string{`{"event":"my app k=v ` + full + `","time":1767319445}`, `{"event":"my app k=v rest","time":1767319445}`},
			[]string{"my app k=v " + full + "rest"}},
		"raw of another tag": {[]string{`{"event":"app ` + full + `","time":1767319445}`, `{"event":"web rest","time":1767319445}`}, []string{"app " + full, "web rest"}},
		"raw without a tag":  {[]string{`{"event":"` + full + `","time":1767319445}`, `{"event":"rest","time":1767319445}`}, []string{full + "rest"}},
	} {
		logs, result := decodeHEC(strings.Join(test.events, ""))
		var got []string
		for _, l := range logs {
			got = append(got, l.Data)
		}
		if strings.Join(got, "|") != strings.Join(test.want, "|") || result.Accepted != len(logs) {
			t.Errorf("%s: %d logs of %.40q, %+v", name, len(logs), got, result)
		}
	}
}

func TestJoinedLineStaysWithinTheLimitOfARecord(t *testing.T) {
	t.Parallel()
	full := strings.Repeat("f", pieceBytes)
	logs, result := decodeHEC(strings.Repeat(dockerEvent(full, "t", "45"), 100))
	total := 0
	for _, l := range logs {
		total += len(l.Data)
		if l.Size() > DefaultLimits().Record {
			t.Errorf("a record of %d bytes", l.Size())
		}
	}
	if total != 100*pieceBytes || len(logs) != 2 || result.RejectedTotal != 0 {
		t.Errorf("%d bytes in %d logs, %+v", total, len(logs), result)
	}
}

func TestSeverityOfAJoinedLineIsThatOfTheWhole(t *testing.T) {
	t.Parallel()
	line := `{"msg":"` + strings.Repeat("x", 20<<10) + `","level":"error"}`
	logs, _ := decodeHEC(dockerEvent(line[:pieceBytes], "t", "45") + dockerEvent(line[pieceBytes:], "t", "45"))
	if len(logs) != 1 || logs[0].Data != line || logs[0].SeverityNumber != 17 || logs[0].Host != "vm" || logs[0].Application != "t" {
		t.Errorf("%d logs, severity %q", len(logs), logs[0].Severity)
	}
}

func TestIndexOfARejectionCountsJoinedPieces(t *testing.T) {
	t.Parallel()
	full := strings.Repeat("f", pieceBytes)
	_, result := decodeHEC(dockerEvent(full, "t", "45") + dockerEvent("rest", "t", "45") + `{"event":""}`)
	if result.Accepted != 1 || len(result.Rejected) != 1 || result.Rejected[0].Index != 2 {
		t.Errorf("%+v", result)
	}
}
