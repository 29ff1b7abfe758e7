package option

import (
	"strings"
	"testing"
	"time"
)

// given is the least that a container needs, with more options.
func given(pairs ...string) map[string]string {
	options := map[string]string{URL: "http://127.0.0.1:8080", Token: "lgb_secret"}
	for i := 0; i < len(pairs); i += 2 {
		options[pairs[i]] = pairs[i+1]
	}
	return options
}

func TestOptionsAreRead(t *testing.T) {
	t.Parallel()
	o, err := Parse(given(URL, "https://logs.example.com/in/", Compression, "zstd", Insecure, "true",
		BatchLines, "10", BatchBytes, "64KiB", BatchInterval, "250ms", SpoolBytes, "10MiB",
		"labels", "team,,tier", "env", "VERSION", "labels-regex", "^a", "env-regex", "", "tag", "{{.Name}}",
		"mode", "non-blocking", "max-buffer-size", "4m", "cache-disabled", "false", "cache-max-size", "1m", "cache-max-file", "2", "cache-compress", "true"))
	if err != nil {
		t.Fatal(err)
	}
	if want := (Destination{URL: "https://logs.example.com/in", Token: "lgb_secret", Compression: Zstd, Insecure: true}); o.Destination != want {
		t.Errorf("destination %+v, want %+v", o.Destination, want)
	}
	if want := (Batch{Lines: 10, Bytes: 64 << 10, Interval: 250 * time.Millisecond}); o.Batch != want {
		t.Errorf("batch %+v, want %+v", o.Batch, want)
	}
	if o.SpoolBytes != 10<<20 || len(o.Attributes.Labels) != 2 || o.Attributes.LabelsRegex == nil || o.Attributes.EnvRegex != nil || o.Tag == nil {
		t.Errorf("options %+v", o)
	}
}

func TestDefaultsAreUsable(t *testing.T) {
	t.Parallel()
	o, err := Parse(given())
	if err != nil {
		t.Fatal(err)
	}
	if o.Destination.Compression != Gzip || o.Batch != (Batch{1000, 1 << 20, time.Second}) || o.SpoolBytes != 0 || o.Tag == nil {
		t.Errorf("options %+v", o)
	}
}

func TestWrongOptionsAreRefusedByName(t *testing.T) {
	t.Parallel()
	without := func(name string) map[string]string {
		options := given()
		delete(options, name)
		return options
	}
	for name, c := range map[string]struct {
		options map[string]string
		want    string
	}{
		"unknown":              {given("collector-urll", "x"), "collector-urll"},
		"another driver's":     {given("splunk-url", "x"), "splunk-url"},
		"no address":           {without(URL), URL},
		"no token":             {without(Token), Token},
		"two tokens":           {given(TokenFile, "/run/token"), TokenFile},
		"no scheme":            {given(URL, "logs:8080"), URL},
		"another scheme":       {given(URL, "ftp://logs"), URL},
		"no host":              {given(URL, "http://"), URL},
		"unreadable":           {given(URL, "http://u:canary@%zz"), URL},
		"credentials":          {given(URL, "http://u:canary@logs"), URL},
		"query":                {given(URL, "http://logs?a=canary"), URL},
		"empty token":          {given(Token, ""), Token},
		"token with blanks":    {given(Token, "canary canary"), Token},
		"token with newline":   {given(Token, "canary\n"), Token},
		"long token":           {given(Token, strings.Repeat("canary", 1000)), Token},
		"relative token file":  {given(TokenFile, "token"), TokenFile},
		"compression":          {given(Compression, "lzma"), Compression},
		"relative authorities": {given(CA, "ca.pem"), CA},
		"insecure":             {given(Insecure, "perhaps"), Insecure},
		"insecure and CA":      {given(Insecure, "true", CA, "/ca.pem"), CA},
		"no lines":             {given(BatchLines, "0"), BatchLines},
		"lines in words":       {given(BatchLines, "many"), BatchLines},
		"few bytes":            {given(BatchBytes, "1"), BatchBytes},
		"bytes in words":       {given(BatchBytes, "many"), BatchBytes},
		"interval":             {given(BatchInterval, "5"), BatchInterval},
		"long interval":        {given(BatchInterval, "5h"), BatchInterval},
		"spool":                {given(SpoolBytes, "1"), SpoolBytes},
		"spool in words":       {given(SpoolBytes, "-"), SpoolBytes},
		"tag":                  {given("tag", "{{"), "tag"},
		"labels-regex":         {given("labels-regex", "("), "labels-regex"},
		"env-regex":            {given("env-regex", strings.Repeat("a", 2000)), "env-regex"},
	} {
		_, err := Parse(c.options)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error that names %s", name, err, c.want)
			continue
		}
		if strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "lgb_secret") {
			t.Errorf("%s: the error shows a secret: %v", name, err)
		}
	}
}
