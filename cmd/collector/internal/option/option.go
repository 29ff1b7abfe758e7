// Package option reads a container's --log-opt values.
//
// Docker checks none of them for a plugin, so each is checked here, and a
// wrong one is refused by its name before the container starts. What a
// newcomer would get wrong: nothing here may touch the network. A container
// must start although Logboom is away.
package option

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/logboom/logboom/cmd/collector/internal/tag"
	"github.com/logboom/logboom/pkg/config"
)

// Names of the options.
const (
	URL           = "collector-url"
	Token         = "collector-token"
	TokenFile     = "collector-token-file"
	Compression   = "collector-compression"
	CA            = "collector-ca"
	Insecure      = "collector-insecure-skip-verify"
	BatchLines    = "collector-batch-lines"
	BatchBytes    = "collector-batch-bytes"
	BatchInterval = "collector-batch-interval"
	SpoolBytes    = "collector-spool-bytes"
)

// Defaults and bounds.
const (
	defaultBatchLines    = 1000
	maxBatchLines        = 100_000
	defaultBatchBytes    = 1 * config.MiB
	minBatchBytes        = 1 * config.KiB
	maxBatchBytes        = 16 * config.MiB
	defaultBatchInterval = time.Second
	minBatchInterval     = 10 * time.Millisecond
	maxBatchInterval     = time.Minute
	minSpoolBytes        = 64 * config.KiB
	maxToken             = 4096
	maxPattern           = 1024
)

// Compressions that a batch may be sent with.
const (
	Gzip = "gzip"
	Zstd = "zstd"
	None = "none"
)

// Destination is where a container's lines go and how they travel. It is
// comparable: containers with equal ones share their connections.
type Destination struct {
	URL         string `json:"url"` // scheme, host and perhaps a path, without a slash at the end
	Token       string `json:"token,omitempty"`
	TokenFile   string `json:"token_file,omitempty"` // instead of Token; read again for every batch
	Compression string `json:"compression"`
	CA          string `json:"ca,omitempty"` // path of a PEM file; empty: the usual authorities
	Insecure    bool   `json:"insecure,omitempty"`
}

// Batch says when a batch is full.
type Batch struct {
	Lines    int           `json:"lines"`
	Bytes    int           `json:"bytes"`
	Interval time.Duration `json:"interval"` // the longest that a line waits for others
}

// Options is what a container was given.
type Options struct {
	Destination Destination
	Batch       Batch
	SpoolBytes  int64 // 0: as much as all containers together may
	Tag         *template.Template
	Attributes  tag.Choice
}

// readers read one option each. An option that is not here is unknown, apart
// from dockers.
func readers() map[string]func(o *Options, value string) error {
	return map[string]func(o *Options, value string) error{
		URL:              (*Options).readURL,
		Token:            (*Options).readToken,
		TokenFile:        func(o *Options, value string) error { return path(&o.Destination.TokenFile, value) },
		Compression:      (*Options).readCompression,
		CA:               func(o *Options, value string) error { return path(&o.Destination.CA, value) },
		Insecure:         (*Options).readInsecure,
		BatchLines:       (*Options).readBatchLines,
		BatchBytes:       (*Options).readBatchBytes,
		BatchInterval:    (*Options).readBatchInterval,
		SpoolBytes:       (*Options).readSpoolBytes,
		"tag":            func(o *Options, value string) (err error) { o.Tag, err = tag.Parse(value); return err },
		"labels":         func(o *Options, value string) error { o.Attributes.Labels = names(value); return nil },
		"env":            func(o *Options, value string) error { o.Attributes.Env = names(value); return nil },
		"labels-regex":   func(o *Options, value string) error { return pattern(&o.Attributes.LabelsRegex, value) },
		"env-regex":      func(o *Options, value string) error { return pattern(&o.Attributes.EnvRegex, value) },
		"cache-disabled": dockers, "cache-max-size": dockers, "cache-max-file": dockers, "cache-compress": dockers,
		"mode": dockers, "max-buffer-size": dockers,
	}
}

// dockers is an option that dockerd itself obeys and passes on.
func dockers(*Options, string) error { return nil }

// Parse reads a container's options. The error names the option and what to
// do; it never shows a token.
func Parse(given map[string]string) (Options, error) {
	o := Options{
		Destination: Destination{Compression: Gzip},
		Batch:       Batch{Lines: defaultBatchLines, Bytes: int(defaultBatchBytes), Interval: defaultBatchInterval},
	}
	known := readers()
	for _, name := range slices.Sorted(maps.Keys(given)) {
		read, ok := known[name]
		if !ok {
			return Options{}, fmt.Errorf("log option %q is unknown; known are %s", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		if err := read(&o, given[name]); err != nil {
			return Options{}, fmt.Errorf("log option %s: %w", name, err)
		}
	}
	return o, o.complete()
}

// complete checks what no option can check alone.
func (o *Options) complete() (err error) {
	d := o.Destination
	switch {
	case d.URL == "":
		return fmt.Errorf("log option %s is missing: give Logboom's address, such as http://logs.example.com:8080", URL)
	case d.Token == "" && d.TokenFile == "":
		return fmt.Errorf("log option %s is missing: give a project's token, or %s", Token, TokenFile)
	case d.Token != "" && d.TokenFile != "":
		return fmt.Errorf("log options %s and %s exclude each other: give one", Token, TokenFile)
	case d.CA != "" && d.Insecure:
		return fmt.Errorf("log options %s and %s exclude each other: give one", CA, Insecure)
	}
	if o.Tag == nil {
		o.Tag, err = tag.Parse("")
	}
	return err
}

func (o *Options) readURL(value string) error {
	parsed, err := url.Parse(value)
	switch {
	case err != nil || parsed.Host == "" || parsed.Opaque != "":
		return errors.New("must be an address such as http://logs.example.com:8080") // the parser's error would repeat it, credentials included
	case parsed.Scheme != "http" && parsed.Scheme != "https":
		return fmt.Errorf("scheme %q is neither http nor https", parsed.Scheme)
	case parsed.User != nil:
		return fmt.Errorf("must hold no user or password: the token goes into %s", Token)
	case parsed.RawQuery != "" || parsed.ForceQuery || parsed.Fragment != "":
		return errors.New("must end with the host or a path: no ? and no #")
	}
	o.Destination.URL = strings.TrimRight(value, "/")
	return nil
}

func (o *Options) readToken(value string) error {
	if err := CheckToken(value); err != nil {
		return err
	}
	o.Destination.Token = value
	return nil
}

// CheckToken refuses what cannot travel as a token.
func CheckToken(token string) error {
	switch {
	case token == "":
		return errors.New("the token is empty")
	case len(token) > maxToken:
		return fmt.Errorf("the token is longer than %d bytes", maxToken)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("the token holds blanks or characters that no token has")
	}
	return nil
}

func (o *Options) readCompression(value string) error {
	if !slices.Contains([]string{Gzip, Zstd, None}, value) {
		return fmt.Errorf("%q is none of gzip, zstd, none", value)
	}
	o.Destination.Compression = value
	return nil
}

func (o *Options) readInsecure(value string) (err error) {
	if o.Destination.Insecure, err = strconv.ParseBool(value); err != nil {
		return fmt.Errorf("%q is neither true nor false", value)
	}
	return nil
}

func (o *Options) readBatchLines(value string) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > maxBatchLines {
		return fmt.Errorf("%q is no number within 1 to %d", value, maxBatchLines)
	}
	o.Batch.Lines = n
	return nil
}

func (o *Options) readBatchBytes(value string) error {
	var size config.Size
	if err := size.UnmarshalText([]byte(value)); err != nil {
		return err
	}
	if size < minBatchBytes || size > maxBatchBytes {
		return fmt.Errorf("%s is not within %s to %s", size, minBatchBytes, maxBatchBytes)
	}
	o.Batch.Bytes = int(size)
	return nil
}

func (o *Options) readBatchInterval(value string) error {
	interval, err := time.ParseDuration(value)
	if err != nil || interval < minBatchInterval || interval > maxBatchInterval {
		return fmt.Errorf("%q is no time within %s to %s", value, minBatchInterval, maxBatchInterval)
	}
	o.Batch.Interval = interval
	return nil
}

func (o *Options) readSpoolBytes(value string) error {
	var size config.Size
	if err := size.UnmarshalText([]byte(value)); err != nil {
		return err
	}
	if size < minSpoolBytes {
		return fmt.Errorf("%s is under %s", size, minSpoolBytes)
	}
	o.SpoolBytes = int64(size)
	return nil
}

func path(to *string, value string) error {
	if !strings.HasPrefix(value, "/") {
		return fmt.Errorf("%q is no path that begins with /", value)
	}
	*to = value
	return nil
}

func pattern(to **regexp.Regexp, value string) (err error) {
	if value == "" {
		return nil
	}
	if len(value) > maxPattern {
		return fmt.Errorf("the pattern is longer than %d bytes", maxPattern)
	}
	if *to, err = regexp.Compile(value); err != nil {
		return fmt.Errorf("%q is no regular expression: %w", value, err)
	}
	return nil
}

func names(list string) []string {
	var all []string
	for name := range strings.SplitSeq(list, ",") {
		if name != "" {
			all = append(all, name)
		}
	}
	return all
}
