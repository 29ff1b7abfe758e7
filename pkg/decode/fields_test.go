package decode

import (
	"strings"
	"testing"

	"github.com/logboom/logboom/pkg/record"
)

func TestLogWithOnlyDataGetsTheDefaults(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"data":"x"}`,
		`{"data":"x","application":null,"severity":null,"host":null,"source":null,"timestamp":null,"metadata":null}`,
		`{"data":"x","application":"","severity":"","timestamp":"","metadata":{}}`,
	} {
		l := oneLog(t, body)
		if l.Timestamp != now.UnixNano() || l.Application != "token-name" || l.Severity != "INFO" || l.SeverityNumber != 9 ||
			l.Data != "x" || l.Host != "" || l.Source != "" || len(l.Metadata) != 0 {
			t.Errorf("%s: got %+v", body, l)
		}
	}
}

func TestLogFieldsAreDecoded(t *testing.T) {
	t.Parallel()
	l := oneLog(t, `{"timestamp":"2026-01-02T03:00:00Z","application":"api","severity":"Warn","data":"d","host":"h","source":"stderr","metadata":{"k":"v"}}`)
	if l.Timestamp != now.Truncate(1e9).Unix()*1e9-245e9 || l.Application != "api" || l.Severity != "Warn" || l.SeverityNumber != 13 ||
		l.Data != "d" || l.Host != "h" || l.Source != "stderr" || pairsText(l.Metadata) != "k=v" {
		t.Errorf("got %+v", l)
	}
}

func TestDataOfAnotherTypeIsKeptAsJSONText(t *testing.T) {
	t.Parallel()
	for _, value := range []string{`5`, `-1.50e+3`, `true`, `false`, `null`, `[]`, `{}`, `[1, "two",{"x":null} ]`, `{"a": {"b":"\u00e9"} , "c":1.0}`} {
		if got := oneLog(t, `{"data": `+value+` }`).Data; got != value {
			t.Errorf("%s: got %s", value, got)
		}
	}
	if got := oneLog(t, `{"data":""}`).Data; got != "" {
		t.Errorf("empty data: got %q", got)
	}
}

func TestNamesMayBeScalars(t *testing.T) {
	t.Parallel()
	l := oneLog(t, `{"data":"x","application":5,"host":1.50,"source":true,"severity":false}`)
	if l.Application != "5" || l.Host != "1.50" || l.Source != "true" || l.Severity != "false" || l.SeverityNumber != 0 {
		t.Errorf("got %+v", l)
	}
}

func TestInvalidLogFieldsAreRejected(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"data":"x","application":{}}`:         "application must be text",
		`{"data":"x","application":["a"]}`:      "application must be text",
		`{"data":"x","metadata":"x"}`:           "metadata must be an object",
		`{"data":"x","metadata":5}`:             "metadata must be an object",
		`{"data":"x","metadata":[{"a":1}]}`:     "metadata must be an object",
		`{"metadata":{},"metadata":1,"data":1}`: "metadata must be an object",
	} {
		logs, result := decodeLogs(body)
		if len(logs) != 0 || result.Rejected[0].Code != CodeInvalidField || result.Rejected[0].Detail != want {
			t.Errorf("%s: got %+v", body, result)
		}
	}
}

func TestMetadataIsFlattened(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"data":"","metadata":{"s":"x","n":1.50,"e":1E3,"t":true,"f":false,"z":null}}`: "s=x n=1.50 e=1E3 t=true f=false z=null",
		`{"data":"","metadata":{"a":{"b":{"c":1},"d":"x"},"e":2}}`:                      "a.b.c=1 a.d=x e=2",
		`{"data":"","metadata":{"a":[1, {"b":2}],"b":[]}}`:                              `a=[1, {"b":2}] b=[]`,
		`{"data":"","metadata":{"a":{},"b":{"c":{}}}}`:                                  "a={} b.c={}",
		`{"data":"","metadata":{"":1,"a":{"":2},"b":{"":{"":3}}}}`:                      "=1 a.=2 b..=3",
		`{"data":"","user":"u","n":5,"ctx":{"a":{"b":1}},"list":[1],"no":null}`:         "user=u n=5 ctx.a.b=1 list=[1] no=null",
		`{"data":"","Data":"x","message":"m"}`:                                          "Data=x message=m",
		`{"data":"","host":{"name":"h"},"source":["a"]}`:                                `host.name=h source=["a"]`,
		`{"data":"","metadata":{"k\u0065y":"v\u0061l"}}`:                                "key=val",
		`{"data":"","metadata":{"a":1,"metadata":{"b":2}}}`:                             "a=1 metadata.b=2",
		`{"data":"","\u006detadata":{"a":1}}`:                                           "a=1",
	} {
		if got := metadata(t, body); got != want {
			t.Errorf("%s:\n got %s\nwant %s", body, got, want)
		}
	}
}

func TestLastOfTwoEqualKeysCounts(t *testing.T) {
	t.Parallel()
	l := oneLog(t, `{"data":"a","data":"b","application":["x"],"application":"y","host":"h","host":null,
		"metadata":{"k":1,"j":2,"k":3},"metadata":{"l":4,"j":5},"k":6,"a.b":1,"a":{"b":2}}`)
	if l.Data != "b" || l.Application != "y" || l.Host != "" || pairsText(l.Metadata) != "k=6 j=5 l=4 a.b=2" {
		t.Errorf("got %+v", l)
	}
}

func TestLastOfTwoEqualKeysCountsAmongMany(t *testing.T) {
	t.Parallel()
	var keys strings.Builder
	for i := range 100 {
		keys.WriteString(`"k` + strings.Repeat("x", i) + `":1,`)
	}
	l := oneLog(t, `{"data":"","metadata":{`+keys.String()+keys.String()+`"k":2}}`)
	if len(l.Metadata) != 100 || l.Metadata[0] != (record.Pair{Key: "k", Value: "2"}) {
		t.Errorf("%d pairs, the first %v", len(l.Metadata), l.Metadata[0])
	}
}

func TestEventFieldsAreDecoded(t *testing.T) {
	t.Parallel()
	e := oneEvent(t, `{"channel":"deploys","title":"shipped","description":"v1","icon":"🚀","notify":true,"timestamp":1767322800,"tags":{"sha":"abc","n":{"x":1}},"by":"ci"}`)
	if e.Channel != "deploys" || e.Title != "shipped" || e.Description != "v1" || e.Icon != "🚀" || !e.Notify ||
		e.Timestamp != 1767322800e9 || pairsText(e.Tags) != "sha=abc n.x=1 by=ci" {
		t.Errorf("got %+v", e)
	}
}

func TestEventWithOnlyRequiredFieldsGetsTheDefaults(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"channel":"c","title":"t"}`,
		`{"channel":"c","event":"t"}`,
		`{"channel":"c","event":"t","title":null}`,
		`{"channel":"c","title":"t","event":null,"description":null,"icon":null,"notify":null,"tags":null,"timestamp":null}`,
	} {
		e := oneEvent(t, body)
		if e.Channel != "c" || e.Title != "t" || e.Description != "" || e.Icon != "" || e.Notify || len(e.Tags) != 0 || e.Timestamp != now.UnixNano() {
			t.Errorf("%s: got %+v", body, e)
		}
	}
}

func TestEventFieldsAreLenientWhereNothingIsLost(t *testing.T) {
	t.Parallel()
	e := oneEvent(t, `{"channel":5,"title":true,"event":"other","description":{"a": 1},"icon":7,"notify":"True","host":"h"}`)
	if e.Channel != "5" || e.Title != "true" || e.Description != `{"a": 1}` || e.Icon != "7" || !e.Notify || pairsText(e.Tags) != "host=h event=other" {
		t.Errorf("got %+v", e)
	}
	if oneEvent(t, `{"channel":"c","title":"t","notify":"false"}`).Notify {
		t.Error("notify false in a string was taken for true")
	}
}

func TestInvalidEventsAreRejected(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"title":"t"}`:                               "missing_field channel is required",
		`{"channel":null,"title":"t"}`:                "missing_field channel is required",
		`{"channel":"c"}`:                             "missing_field title is required",
		`{"channel":"c","event":null}`:                "missing_field title is required",
		`{"channel":"","title":"t"}`:                  "invalid_field channel must not be blank",
		`{"channel":"c","title":" \n"}`:               "invalid_field title must not be blank",
		`{"channel":["c"],"title":"t"}`:               "invalid_field channel must be text",
		`{"channel":"c","event":{"a":1}}`:             "invalid_field title must be text",
		`{"channel":"c","title":"t","icon":[]}`:       "invalid_field icon must be text",
		`{"channel":"c","title":"t","notify":1}`:      "invalid_field notify must be true or false",
		`{"channel":"c","title":"t","notify":"yes"}`:  "invalid_field notify must be true or false",
		`{"channel":"c","title":"t","notify":{}}`:     "invalid_field notify must be true or false",
		`{"channel":"c","title":"t","tags":["a"]}`:    "invalid_field tags must be an object",
		`{"channel":"c","title":"t","tags":"a"}`:      "invalid_field tags must be an object",
		`{"channel":"c","title":"t","tags":{"a":1,}}`: "invalid_json expected a key in double quotes",
	} {
		events, result := decodeEvents(body)
		if len(events) != 0 || result.Rejected[0].Code+" "+result.Rejected[0].Detail != want {
			t.Errorf("%s: got %+v", body, result)
		}
	}
}

func TestSeverityWordIsTrimmedAndKept(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]record.Log{
		`"ERROR"`:           {Severity: "ERROR", SeverityNumber: 17},
		`" [Warn]: "`:       {Severity: "Warn", SeverityNumber: 13},
		`"whatever"`:        {Severity: "whatever"},
		`"Ünüblich"`:        {Severity: "Ünüblich"},
		`"[]"`:              {Severity: "INFO", SeverityNumber: 9},
		`3`:                 {Severity: "3"},
		`"3"`:               {Severity: "3"},
		`["a"]`:             {Severity: `"a"`},
		`{"level":"error"}`: {Severity: `{"level":"error"}`},
	} {
		l := oneLog(t, `{"data":"","severity":`+value+`}`)
		if l.Severity != want.Severity || l.SeverityNumber != want.SeverityNumber {
			t.Errorf("%s: got %q %d", value, l.Severity, l.SeverityNumber)
		}
	}
}

func TestSeveritySchemeDefinesANumber(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"data":"","severity":3,"metadata":{"severity_scheme":"syslog"}}`,
		`{"metadata":{"severity_scheme":"SYSLOG"},"severity":"3","data":""}`,
		`{"data":"","severity":17,"severity_scheme":"otel"}`,
		`{"data":"","severity":50,"severity_scheme":"pino"}`,
	} {
		if got := oneLog(t, body).SeverityNumber; got != 17 {
			t.Errorf("%s: got %d", body, got)
		}
	}
}

func TestTimestampOutsideTheRangeIsMovedAndKept(t *testing.T) {
	t.Parallel()
	oldest, latest := now.AddDate(0, 0, -30), now.Add(maxAhead)
	for value, want := range map[string]struct {
		nanos    int64
		original string
	}{
		`"2026-01-02T03:04:05Z"`:           {now.Truncate(1e9).UnixNano(), ""},
		`"2025-12-03T03:04:05.000000678Z"`: {oldest.UnixNano(), ""},
		`"2025-12-03T03:04:05.000000677Z"`: {oldest.UnixNano(), "2025-12-03T03:04:05.000000677Z"},
		`"2026-01-02T03:14:05.000000678Z"`: {latest.UnixNano(), ""},
		`"2026-01-02T03:14:05.000000679Z"`: {latest.UnixNano(), "2026-01-02T03:14:05.000000679Z"},
		`0`:                                {oldest.UnixNano(), "0"},
		`-1.5e300`:                         {oldest.UnixNano(), "-1.5e300"},
		`99999999999999999999`:             {latest.UnixNano(), "99999999999999999999"},
		`"1970-01-01T00:00:00Z"`:           {oldest.UnixNano(), "1970-01-01T00:00:00Z"},
		`"yesterday"`:                      {now.UnixNano(), "yesterday"},
		`true`:                             {now.UnixNano(), "true"},
		`{"$date": 5}`:                     {now.UnixNano(), `{"$date": 5}`},
	} {
		l := oneLog(t, `{"data":"","timestamp":`+value+`}`)
		wantPairs := ""
		if want.original != "" {
			wantPairs = "timestamp_original=" + want.original
		}
		if l.Timestamp != want.nanos || pairsText(l.Metadata) != wantPairs {
			t.Errorf("%s: got %d %s, want %d", value, l.Timestamp, pairsText(l.Metadata), want.nanos)
		}
	}
}

func TestEventTimestampIsMovedToo(t *testing.T) {
	t.Parallel()
	e := oneEvent(t, `{"channel":"c","title":"t","timestamp":12}`)
	if e.Timestamp != defaults().Oldest.UnixNano() || pairsText(e.Tags) != "timestamp_original=12" {
		t.Errorf("got %+v", e)
	}
}

func TestWithoutAnOldestTimeOldTimestampsStay(t *testing.T) {
	t.Parallel()
	NewDecoder(DefaultLimits()).Logs([]byte(`{"data":"","timestamp":12}`), Defaults{Now: now}, func(l *record.Log) {
		if l.Timestamp != 12e9 || len(l.Metadata) != 0 {
			t.Errorf("got %+v", l)
		}
	})
}
