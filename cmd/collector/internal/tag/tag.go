// Package tag says what a container's lines are called: the expanded tag
// template and the attributes that its labels and variables give.
//
// It does what moby's daemon/logger/loginfo.go and daemon/logger/templates do,
// since dockerd leaves both to the plugin. What a newcomer would get wrong:
// Container holds every environment variable of the container, secrets
// included. It is only looked up by the names that the options give, and never
// logged or stored.
package tag

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"text/template"
)

// Default is the template of a container that was given none.
const Default = "{{.ID}}"

// maxTag bounds an expanded tag, in bytes.
const maxTag = 1024

// shortID is how much of an id Docker shows.
const shortID = 12

// Container is what Docker tells about a container when its log starts: the
// part of moby's logger.Info that is needed, under the same names.
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

// Choice says which labels and variables become attributes.
type Choice struct {
	Labels, Env           []string
	LabelsRegex, EnvRegex *regexp.Regexp // nil: none
}

// Attributes are the chosen labels and variables.
func (c *Container) Attributes(choice Choice) map[string]string {
	chosen := map[string]string{}
	choose(chosen, c.ContainerLabels, choice.Labels, choice.LabelsRegex)
	env := make(map[string]string, len(c.ContainerEnv))
	for _, pair := range c.ContainerEnv {
		if name, value, ok := strings.Cut(pair, "="); ok {
			env[name] = value
		}
	}
	choose(chosen, env, choice.Env, choice.EnvRegex)
	return chosen
}

func choose(chosen, from map[string]string, names []string, pattern *regexp.Regexp) {
	for _, name := range names {
		if value, ok := from[name]; ok {
			chosen[name] = value
		}
	}
	if pattern == nil {
		return
	}
	for name, value := range from {
		if pattern.MatchString(name) {
			chosen[name] = value
		}
	}
}

// Parse reads a tag template; empty means Default.
func Parse(text string) (*template.Template, error) {
	if text == "" {
		text = Default
	}
	parsed, err := template.New("tag").Funcs(functions()).Option("missingkey=zero").Parse(text)
	if err != nil {
		return nil, fmt.Errorf("template %q: %w", text, err)
	}
	return parsed, nil
}

// Expand is a template's text for a container. The error names the template's
// fault and never what the container holds.
func Expand(parsed *template.Template, c *Container, choice Choice) (string, error) {
	out := &bounded{left: maxTag}
	err := parsed.Execute(out, view{c, choice})
	switch {
	case errors.Is(err, errLong):
		return "", errLong
	case err != nil:
		return "", errors.New("it cannot be expanded: known are .ID .FullID .Name .ImageID .ImageFullID .ImageName .DaemonName .Command .Hostname .ExtraAttributes and json split join title lower upper pad truncate")
	}
	return out.String(), nil
}

var errLong = fmt.Errorf("it expands to more than %d bytes", maxTag)

// bounded is a text that may only grow so far.
type bounded struct {
	strings.Builder
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errLong
	}
	return b.Builder.Write(p)
}

// view is what a template sees: methods only.
type view struct {
	container *Container
	choice    Choice
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

// ExtraAttributes takes and ignores Docker's argument, which is always nil in
// a template: {{(.ExtraAttributes nil).version}}.
func (v view) ExtraAttributes(...any) map[string]string { return v.container.Attributes(v.choice) }
