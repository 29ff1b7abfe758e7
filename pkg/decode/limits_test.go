package decode

import (
	"runtime"
	"strings"
	"testing"

	"github.com/logboom/logboom/pkg/record"
)

func TestRecordAboveItsLimitIsRejectedAlone(t *testing.T) {
	t.Parallel()
	const limit = 64 << 10
	big := strings.Repeat("x", limit-len("token-nameINFO"))
	for name, c := range map[string]struct {
		entry string
		want  string
	}{
		"exactly the limit":             {`{"data":"` + big + `"}`, ""},
		"a byte more":                   {`{"data":"` + big + `y"}`, CodeBodyTooLarge},
		"a byte more of pairs":          {`{"data":"` + big + `","":1}`, CodeBodyTooLarge},
		"many full values":              {`{"data":""` + manyValues(100) + `}`, CodeBodyTooLarge},
		"a value that is cut":           {`{"data":"","k":"` + big + big + `"}`, ""},
		"escapes that stay small":       {`{"data":"` + strings.Repeat(`\u0041`, limit/2) + `"}`, ""},
		"escapes that get large":        {`{"data":"` + strings.Repeat(`\n`, limit) + `"}`, CodeBodyTooLarge},
		"bytes that grow when replaced": {`{"data":"` + strings.Repeat("\xff", limit/2) + `"}`, CodeBodyTooLarge},
		"escapes beyond holding":        {`{"data":"` + strings.Repeat(`\n`, 5*limit) + `"}`, CodeBodyTooLarge},
		"bad bytes beyond holding":      {`{"data":["` + strings.Repeat("\xff", 9*limit) + `"]}`, CodeBodyTooLarge},
		"JSON text":                     {`{"data":["` + big + `"]}`, CodeBodyTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := DefaultLimits()
			l.Record = limit
			logs, result := decodeLogsWithin(l, "{\"data\":\"before\"}\n"+c.entry+"\n{\"data\":\"after\"}")
			if c.want == "" {
				if len(logs) != 3 {
					t.Errorf("got %+v", result)
				}
				return
			}
			if len(logs) != 2 || result.RejectedTotal != 1 || result.Rejected[0].Code != c.want ||
				result.Rejected[0].Index != 1 || result.Rejected[0].Offset != 18 {
				t.Errorf("got %d logs and %+v", len(logs), result)
			}
		})
	}
}

func manyValues(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`,"k` + strings.Repeat("k", i) + `":"` + strings.Repeat("v", 16<<10) + `"`)
	}
	return b.String()
}

func TestLargestRecordIsOneMebibyte(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 1<<20-len("token-nameINFO"))
	oneLog(t, `{"data":"`+text+`"}`)
	if _, result := decodeLogs(`{"data":"` + text + `y"}`); result.RejectedTotal != 1 || result.Rejected[0].Code != CodeBodyTooLarge {
		t.Errorf("a log: got %+v", result)
	}
	_, result := decodeEvents(`{"channel":"c","title":"t","description":"` + strings.Repeat("x", 1<<20) + `"}`)
	if result.RejectedTotal != 1 || result.Rejected[0].Code != CodeBodyTooLarge {
		t.Errorf("an event: got %+v", result)
	}
}

// The depth counts the record itself as the first level.
func TestDepthIsBounded(t *testing.T) {
	t.Parallel()
	nest := func(open, shut string, n int) string { return strings.Repeat(open, n) + "1" + strings.Repeat(shut, n) }
	for _, key := range []string{"data", "other"} {
		for _, c := range []struct {
			value string
			good  bool
		}{
			{nest("[", "]", 63), true},
			{nest("[", "]", 64), false},
			{nest(`{"a":`, "}", 63), true},
			{nest(`{"a":`, "}", 64), false},
			{nest(`{"a":[`, "]}", 31), true},
			{nest(`{"a":[`, "]}", 32), false},
			{nest("[", "]", 100_000), false},
		} {
			inArray := `[{"` + key + `":` + c.value + `,"data":"x"},{"data":"after"}]`
			if len(c.value) > maxLineDepth {
				if _, result := decodeLogs(inArray); result.Err() == nil || result.Accepted != 0 {
					t.Errorf("%.60s (%d bytes): %+v", inArray, len(inArray), result)
				}
				inArray = ""
			}
			for _, body := range []string{
				`{"` + key + `":` + c.value + `,"data":"x"}` + "\n" + `{"data":"after"}`,
				inArray,
			} {
				if body == "" {
					continue
				}
				logs, result := decodeLogs(body)
				if len(logs) == 0 || logs[len(logs)-1].Data != "after" || (len(logs) == 2) != c.good {
					t.Errorf("%.60s (%d bytes): %d logs, %+v", body, len(body), len(logs), result)
				}
				if !c.good && (result.RejectedTotal != 1 || result.Rejected[0].Code != CodeInvalidJSON) {
					t.Errorf("%.60s (%d bytes): got %+v", body, len(body), result)
				}
			}
		}
	}
}

// The test measures memory, and instead of time, which depends on the machine, the
// bytes that are read again.
func TestHostileBodiesCostLittle(t *testing.T) {
	const size = 1 << 20
	fill := func(unit string) string { return strings.Repeat(unit, size/len(unit)) }
	deepPath := strings.Repeat(`{"`+strings.Repeat("p", 4000)+`":`, 60)
	for name, body := range map[string]string{
		"empty objects":          fill(`{}`),
		"empty objects in array": "[" + strings.TrimSuffix(fill(`{},`), ",") + "]",
		"open arrays":            fill(`[`),
		"open objects":           fill(`{`),
		"open objects on lines":  fill("{\n"),
		"nested openings":        fill(`{"a":`),
		"arrays on lines":        fill("{\"a\":[\n"),
		"long arrays on lines":   fill("{\"a\":[" + strings.Repeat("1,", 6_000) + "\n"),
		"small logs":             fill(`{"data":""}`),
		"quotes":                 fill(`"`),
		"escaped quotes":         `{"data":"` + fill(`\"`),
		"escapes in one record":  `{"data":"` + fill(`\n`) + `"}`,
		"broken strings":         "[" + fill(`{"a},`),
		"broken string pairs":    "[" + fill(`{x"},{"x`),
		"broken nesting":         "[" + fill(`{"a":[{"b":1},{"c"`),
		"brackets that mismatch": "[" + fill(`{[},{`),
		"braces and blanks":      "[{x" + fill("}        "),
		"one key many times":     `{"data":"","a":{` + fill(`"k":1,`) + `"k":1}}`,
		"different keys":         `{"data":"","a":{` + differentKeys(size) + `"k":1}}`,
		"keys under a long path": `{"data":"","a":` + deepPath + `{` + differentKeys(size) + `"k":1}` + strings.Repeat("}", 61),
		"bad UTF-8":              `{"data":"` + fill("\xff") + `"}`,
		"newlines":               fill("\n"),
		"commas":                 "[" + fill(","),
		"lines of text":          fill("hello\n"),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		d := NewDecoder(DefaultLimits())
		result := d.Logs([]byte(body), defaults(), func(*record.Log) {})
		runtime.ReadMemStats(&after)
		const most = 24 << 20 // the body, a record's text of three times that, and what it grew from
		if grown := after.TotalAlloc - before.TotalAlloc; grown > most {
			t.Errorf("%s: %d MiB allocated", name, grown>>20)
		}
		if d.rescans > rescanFree+(rescanFactor+1)*len(body) {
			t.Errorf("%s: %d bytes read again", name, d.rescans)
		}
		if result.Accepted+result.RejectedTotal == 0 && result.refused == nil && name != "newlines" {
			t.Errorf("%s: nothing counted", name)
		}
	}
}

func differentKeys(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		b.WriteString(`"` + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676%26)) + string(rune('a'+i/17576%26)) + `":1,`)
	}
	return b.String()
}

func TestDecodingAllocatesNothingARecordWhenWarm(t *testing.T) {
	line := `{"data":"tab\t and caf\u00e9","severity":"warn","application":"api","n":{"a":1,"b":[1]},"user":"u","timestamp":"2026-01-02T03:00:00Z"}` + "\n"
	d := NewDecoder(DefaultLimits())
	allocs := func(body []byte) float64 {
		decode := func() { d.Logs(body, defaults(), func(*record.Log) {}) }
		decode()
		return testing.AllocsPerRun(20, decode)
	}
	few, many := allocs([]byte(strings.Repeat(line, 10))), allocs([]byte(strings.Repeat(line, 1000)))
	if few > 0 || many > 0 {
		t.Errorf("%v allocations for 10 records, %v for 1000", few, many)
	}
}
