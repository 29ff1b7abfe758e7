// Package option parses a container's --log-opt values.
//
// Docker checks none of them for a plugin. Parse therefore checks each one, and
// refuses a wrong one by its name before the container starts. What a newcomer
// would get wrong: nothing here may use the network, because a container must
// start even if Logboom is unreachable.
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

// The compressions of a request's body.
const (
	Gzip = "gzip"
	Zstd = "zstd"
	None = "none"
)

// Destination says where a container's lines go and how they are sent. It is
// comparable: containers with equal destinations share their connections.
type Destination struct {
	URL         string `json:"url"` // scheme, host and optionally a path, without a trailing slash
	Token       string `json:"token,omitempty"`
	TokenFile   string `json:"token_file,omitempty"` // instead of Token; read again for every request
	Compression string `json:"compression"`
	CA          string `json:"ca,omitempty"` // path of a PEM file; empty: the system's authorities
	Insecure    bool   `json:"insecure,omitempty"`
}

// Batch says when a batch is full.
type Batch struct {
	Lines    int           `json:"lines"`
	Bytes    int           `json:"bytes"`
	Interval time.Duration `json:"interval"` // the longest time that a line waits for others
}

// Options are the parsed options of a container.
type Options struct {
	Destination Destination
	Batch       Batch
	SpoolBytes  int64 // 0: only the bound of the whole spool applies
	Tag         *template.Template
	Attributes  tag.Selection
}

// parsers returns the function that parses each known option.
func parsers() map[string]func(o *Options, value string) error {
	return map[string]func(o *Options, value string) error{
		URL:              (*Options).parseURL,
		Token:            func(o *Options, value string) error { o.Destination.Token = value; return CheckToken(value) },
		TokenFile:        func(o *Options, value string) error { return parsePath(&o.Destination.TokenFile, value) },
		Compression:      (*Options).parseCompression,
		CA:               func(o *Options, value string) error { return parsePath(&o.Destination.CA, value) },
		Insecure:         (*Options).parseInsecure,
		BatchLines:       (*Options).parseBatchLines,
		BatchBytes:       (*Options).parseBatchBytes,
		BatchInterval:    (*Options).parseBatchInterval,
		SpoolBytes:       (*Options).parseSpoolBytes,
		"tag":            func(o *Options, value string) (err error) { o.Tag, err = tag.Parse(value); return err },
		"labels":         func(o *Options, value string) error { o.Attributes.Labels = parseNames(value); return nil },
		"env":            func(o *Options, value string) error { o.Attributes.Env = parseNames(value); return nil },
		"labels-regex":   func(o *Options, value string) error { return parsePattern(&o.Attributes.LabelsRegex, value) },
		"env-regex":      func(o *Options, value string) error { return parsePattern(&o.Attributes.EnvRegex, value) },
		"cache-disabled": ignore, "cache-max-size": ignore, "cache-max-file": ignore, "cache-compress": ignore,
		"mode": ignore, "max-buffer-size": ignore,
	}
}

// ignore accepts an option that dockerd itself obeys and also passes on.
func ignore(*Options, string) error { return nil }

// Parse parses a container's options. The error names the option and says what
// to do; it never shows a token.
func Parse(values map[string]string) (Options, error) {
	o := Options{
		Destination: Destination{Compression: Gzip},
		Batch:       Batch{Lines: defaultBatchLines, Bytes: int(defaultBatchBytes), Interval: defaultBatchInterval},
	}
	known := parsers()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		parse, ok := known[name]
		if !ok {
			return Options{}, fmt.Errorf("log option %q is unknown; known are %s", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		if err := parse(&o, values[name]); err != nil {
			return Options{}, fmt.Errorf("log option %s: %w", name, err)
		}
	}
	d := o.Destination
	switch {
	case d.URL == "":
		return o, fmt.Errorf("log option %s is missing: give Logboom's address, such as http://logs.example.com:8080", URL)
	case d.Token == "" && d.TokenFile == "":
		return o, fmt.Errorf("log option %s is missing: give a project's token, or %s", Token, TokenFile)
	case d.Token != "" && d.TokenFile != "":
		return o, fmt.Errorf("log options %s and %s exclude each other: give only one", Token, TokenFile)
	case d.CA != "" && d.Insecure:
		return o, fmt.Errorf("log options %s and %s exclude each other: give only one", CA, Insecure)
	}
	var err error
	if o.Tag == nil {
		o.Tag, err = tag.Parse("")
	}
	return o, err
}

func (o *Options) parseURL(value string) error {
	parsed, err := url.Parse(value)
	switch {
	case err != nil || parsed.Host == "" || parsed.Opaque != "":
		return errors.New("must be an address such as http://logs.example.com:8080") // the parser's error would show the address, credentials included
	case parsed.Scheme != "http" && parsed.Scheme != "https":
		return fmt.Errorf("scheme %q is neither http nor https", parsed.Scheme)
	case parsed.User != nil:
		return fmt.Errorf("must not contain a user or password: put the token into %s", Token)
	case parsed.RawQuery != "" || parsed.ForceQuery || parsed.Fragment != "":
		return errors.New("must end with the host or a path, without ? and #")
	}
	o.Destination.URL = strings.TrimRight(value, "/")
	return nil
}

// CheckToken returns an error, which does not show the token, if the token
// cannot be sent in a header.
func CheckToken(token string) error {
	switch {
	case token == "":
		return errors.New("the token is empty")
	case len(token) > maxToken:
		return fmt.Errorf("the token is longer than %d bytes", maxToken)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("the token contains blanks or characters that no token has")
	}
	return nil
}

func (o *Options) parseCompression(value string) error {
	if !slices.Contains([]string{Gzip, Zstd, None}, value) {
		return fmt.Errorf("%q is not one of gzip, zstd, none", value)
	}
	o.Destination.Compression = value
	return nil
}

func (o *Options) parseInsecure(value string) (err error) {
	if o.Destination.Insecure, err = strconv.ParseBool(value); err != nil {
		return fmt.Errorf("%q is neither true nor false", value)
	}
	return nil
}

func (o *Options) parseBatchLines(value string) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > maxBatchLines {
		return fmt.Errorf("%q is not a number from 1 to %d", value, maxBatchLines)
	}
	o.Batch.Lines = n
	return nil
}

func (o *Options) parseBatchBytes(value string) error {
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

func (o *Options) parseBatchInterval(value string) error {
	interval, err := time.ParseDuration(value)
	if err != nil || interval < minBatchInterval || interval > maxBatchInterval {
		return fmt.Errorf("%q is not a duration within %s to %s", value, minBatchInterval, maxBatchInterval)
	}
	o.Batch.Interval = interval
	return nil
}

func (o *Options) parseSpoolBytes(value string) error {
	var size config.Size
	if err := size.UnmarshalText([]byte(value)); err != nil {
		return err
	}
	if size < minSpoolBytes {
		return fmt.Errorf("%s is less than %s", size, minSpoolBytes)
	}
	o.SpoolBytes = int64(size)
	return nil
}

func parsePath(to *string, value string) error {
	if !strings.HasPrefix(value, "/") {
		return fmt.Errorf("%q is not an absolute path", value)
	}
	*to = value
	return nil
}

func parsePattern(to **regexp.Regexp, value string) (err error) {
	if value == "" {
		return nil
	}
	if len(value) > maxPattern {
		return fmt.Errorf("the pattern is longer than %d bytes", maxPattern)
	}
	if *to, err = regexp.Compile(value); err != nil {
		return fmt.Errorf("%q is not a regular expression: %w", value, err)
	}
	return nil
}

// parseNames splits a list at its commas and drops empty names.
func parseNames(list string) []string {
	return slices.DeleteFunc(strings.Split(list, ","), func(name string) bool { return name == "" })
}
