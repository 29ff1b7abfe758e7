package option

import (
	"strings"
	"testing"
	"time"
)

// values returns the options that every container needs, and more.
func values(pairs ...string) map[string]string {
	options := map[string]string{URL: "http://127.0.0.1:8080", Token: "lgb_secret"}
	for i := 0; i < len(pairs); i += 2 {
		options[pairs[i]] = pairs[i+1]
	}
	return options
}

func TestParseReadsEveryOption(t *testing.T) {
	t.Parallel()
	o, err := Parse(values(URL, "https://logs.example.com/in/", Compression, "zstd", Insecure, "true",
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

func TestParseFillsInDefaults(t *testing.T) {
	t.Parallel()
	o, err := Parse(values())
	if err != nil {
		t.Fatal(err)
	}
	if o.Destination.Compression != Gzip || o.Batch != (Batch{1000, 1 << 20, time.Second}) || o.SpoolBytes != 0 || o.Tag == nil {
		t.Errorf("options %+v", o)
	}
}

func TestParseNamesTheWrongOption(t *testing.T) {
	t.Parallel()
	without := func(name string) map[string]string {
		options := values()
		delete(options, name)
		return options
	}
	for name, c := range map[string]struct {
		options map[string]string
		want    string
	}{
		"unknown":              {values("collector-urll", "x"), "collector-urll"},
		"another driver's":     {values("splunk-url", "x"), "splunk-url"},
		"no address":           {without(URL), URL},
		"no token":             {without(Token), Token},
		"two tokens":           {values(TokenFile, "/run/token"), TokenFile},
		"no scheme":            {values(URL, "logs:8080"), URL},
		"another scheme":       {values(URL, "ftp://logs"), URL},
		"no host":              {values(URL, "http://"), URL},
		"unreadable":           {values(URL, "http://u:canary@%zz"), URL},
		"credentials":          {values(URL, "http://u:canary@logs"), URL},
		"query":                {values(URL, "http://logs?a=canary"), URL},
		"empty token":          {values(Token, ""), Token},
		"token with blanks":    {values(Token, "canary canary"), Token},
		"token with newline":   {values(Token, "canary\n"), Token},
		"long token":           {values(Token, strings.Repeat("canary", 1000)), Token},
		"relative token file":  {values(TokenFile, "token"), TokenFile},
		"compression":          {values(Compression, "lzma"), Compression},
		"relative authorities": {values(CA, "ca.pem"), CA},
		"insecure":             {values(Insecure, "perhaps"), Insecure},
		"insecure and CA":      {values(Insecure, "true", CA, "/ca.pem"), CA},
		"no lines":             {values(BatchLines, "0"), BatchLines},
		"lines in words":       {values(BatchLines, "many"), BatchLines},
		"few bytes":            {values(BatchBytes, "1"), BatchBytes},
		"bytes in words":       {values(BatchBytes, "many"), BatchBytes},
		"interval":             {values(BatchInterval, "5"), BatchInterval},
		"long interval":        {values(BatchInterval, "5h"), BatchInterval},
		"spool":                {values(SpoolBytes, "1"), SpoolBytes},
		"spool in words":       {values(SpoolBytes, "-"), SpoolBytes},
		"tag":                  {values("tag", "{{"), "tag"},
		"labels-regex":         {values("labels-regex", "("), "labels-regex"},
		"env-regex":            {values("env-regex", strings.Repeat("a", 2000)), "env-regex"},
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
