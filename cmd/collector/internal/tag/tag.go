// Package tag computes a container's tag and attributes: the expanded tag
// template, and the labels and environment variables that the options select.
//
// It does what moby's daemon/logger/loginfo.go and daemon/logger/templates do,
// because dockerd leaves both to the plugin. What a newcomer would get wrong:
// Container holds every environment variable of the container, secrets
// included. Read it only by the names that the options give, and never log or
// store it.
package tag

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"text/template"
	"unicode"
)

const (
	// defaultTemplate is used when a container has no tag option.
	defaultTemplate = "{{.ID}}"
	// maxTag bounds an expanded tag, in bytes.
	maxTag = 1024
	// shortID is the number of characters of an ID that Docker shows.
	shortID = 12
)

// Container is what Docker sends about a container when its log starts: the
// needed part of moby's logger.Info, under the same names.
type Container struct {
	ContainerID         string
	ContainerName       string
	ContainerEntrypoint string
	ContainerArgs       []string
	ContainerImageID    string
	ContainerImageName  string
	ContainerEnv        []string
	ContainerLabels     map[string]string
	DaemonName          string
}

// Selection says which labels and environment variables become attributes.
type Selection struct {
	Labels, Env           []string
	LabelsRegex, EnvRegex *regexp.Regexp // nil: none
}

// Attributes returns the selected labels and environment variables.
func (c *Container) Attributes(selection Selection) map[string]string {
	attributes := map[string]string{}
	add := func(from map[string]string, names []string, pattern *regexp.Regexp) {
		for _, name := range names {
			if value, ok := from[name]; ok {
				attributes[name] = value
			}
		}
		for name, value := range from {
			if pattern != nil && pattern.MatchString(name) {
				attributes[name] = value
			}
		}
	}
	add(c.ContainerLabels, selection.Labels, selection.LabelsRegex)
	env := make(map[string]string, len(c.ContainerEnv))
	for _, pair := range c.ContainerEnv {
		if name, value, ok := strings.Cut(pair, "="); ok {
			env[name] = value
		}
	}
	add(env, selection.Env, selection.EnvRegex)
	return attributes
}

// Parse parses a tag template. The empty text stands for the container's short
// ID.
func Parse(text string) (*template.Template, error) {
	if text == "" {
		text = defaultTemplate
	}
	parsed, err := template.New("tag").Funcs(functions()).Option("missingkey=zero").Parse(text)
	if err != nil {
		return nil, fmt.Errorf("template %q: %w", text, err)
	}
	return parsed, nil
}

// Expand returns the tag of a container. The error describes the fault of the
// template and never shows data of the container.
func Expand(parsed *template.Template, c *Container, selection Selection) (string, error) {
	out := &limitedBuilder{left: maxTag}
	err := parsed.Execute(out, view{c, selection})
	switch {
	case errors.Is(err, errTooLong):
		return "", errTooLong
	case err != nil:
		return "", errors.New("the template cannot be expanded: known are .ID .FullID .Name .ImageID .ImageFullID .ImageName .DaemonName .Command .Hostname .ExtraAttributes and json split join title lower upper pad truncate")
	}
	return out.String(), nil
}

var errTooLong = fmt.Errorf("the tag is longer than %d bytes", maxTag)

// limitedBuilder refuses to grow beyond a limit.
type limitedBuilder struct {
	strings.Builder
	left int // bytes
}

func (b *limitedBuilder) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errTooLong
	}
	return b.Builder.Write(p)
}

// view is what a template can read: these methods and nothing else.
type view struct {
	container *Container
	selection Selection
}

func short(id string) string { return id[:min(shortID, len(id))] }

func (v view) ID() string                { return short(v.container.ContainerID) }
func (v view) FullID() string            { return v.container.ContainerID }
func (v view) Name() string              { return strings.TrimPrefix(v.container.ContainerName, "/") }
func (v view) ImageID() string           { return short(v.container.ContainerImageID) }
func (v view) ImageFullID() string       { return v.container.ContainerImageID }
func (v view) ImageName() string         { return v.container.ContainerImageName }
func (v view) DaemonName() string        { return v.container.DaemonName }
func (v view) Hostname() (string, error) { return os.Hostname() }

func (v view) Command() string {
	return strings.Join(append([]string{v.container.ContainerEntrypoint}, v.container.ContainerArgs...), " ")
}

// ExtraAttributes ignores its argument. Docker's function has one, which is
// always nil in a template: {{(.ExtraAttributes nil).version}}.
func (v view) ExtraAttributes(...any) map[string]string { return v.container.Attributes(v.selection) }

// functions returns the functions of Docker's tag templates.
func functions() template.FuncMap {
	return template.FuncMap{
		"json":     formatJSON,
		"split":    strings.Split,
		"join":     strings.Join,
		"title":    title,
		"lower":    strings.ToLower,
		"upper":    strings.ToUpper,
		"pad":      pad,
		"truncate": func(text string, length int) string { return text[:max(0, min(length, len(text)))] },
	}
}

func formatJSON(value any) (string, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return strings.TrimSpace(out.String()), err
}

// title makes the first letter of each word a capital.
func title(text string) string {
	previous := ' '
	return strings.Map(func(r rune) rune {
		insideWord := unicode.IsLetter(previous) || unicode.IsDigit(previous) || previous == '_' || previous == '\''
		previous = r
		if insideWord {
			return r
		}
		return unicode.ToTitle(r)
	}, text)
}

// pad adds blanks around a text, unless it is empty.
func pad(text string, before, after int) (string, error) {
	if text == "" {
		return "", nil
	}
	if before < 0 || after < 0 || before > maxTag || after > maxTag {
		return "", errTooLong
	}
	return strings.Repeat(" ", before) + text + strings.Repeat(" ", after), nil
}
