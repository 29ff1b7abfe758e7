package tag

import (
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"
)

func web() *Container {
	return &Container{
		ContainerID: "0123456789abcdef0123", ContainerName: "/web-1", ContainerEntrypoint: "/bin/web",
		ContainerArgs: []string{"--port", "80"}, ContainerImageID: "sha256:fedcba9876543210", ContainerImageName: "shop/web:1.2",
		ContainerEnv: []string{"VERSION=7", "SECRET=hidden", "broken"}, ContainerLabels: map[string]string{"team": "shop", "tier": "front", "other": "x"},
		DaemonName: "docker",
	}
}

func TestTagsExpandAsDockerDoes(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	selection := Selection{Labels: []string{"team"}, Env: []string{"VERSION"}}
	for template, want := range map[string]string{
		"":                                   "0123456789ab",
		"plain":                              "plain",
		"{{.ID}}":                            "0123456789ab",
		"{{.FullID}}":                        "0123456789abcdef0123",
		"{{.Name}}/{{.ImageName}}":           "web-1/shop/web:1.2",
		"{{.ImageID}} {{.ImageFullID}}":      "sha256:fedcb sha256:fedcba9876543210",
		"{{.DaemonName}}@{{.Hostname}}":      "docker@" + host,
		"{{.Command}}":                       "/bin/web --port 80",
		"{{(.ExtraAttributes nil).team}}":    "shop",
		"{{.ExtraAttributes.VERSION}}":       "7",
		"{{json .ExtraAttributes}}":          `{"VERSION":"7","team":"shop"}`,
		"{{.ExtraAttributes.SECRET}}":        "",
		`{{json "<a>"}}`:                     `"<a>"`,
		`{{join (split .Name "-") "+"}}`:     "web+1",
		"{{title .Name}} {{upper .Name}}":    "Web-1 WEB-1",
		`{{lower "ABC"}}{{pad .Name 1 2}}|`:  "abc web-1  |",
		"{{truncate .Name 3}}":               "web",
		"{{truncate .Name 30}}":              "web-1",
		`{{index (split .ImageName ":") 1}}`: "1.2",
	} {
		parsed, err := Parse(template)
		if err != nil {
			t.Errorf("%s: %v", template, err)
			continue
		}
		got, err := Expand(parsed, web(), selection)
		if err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", template, got, err, want)
		}
	}
}

func TestBadTemplatesAreRefusedWithoutShowingTheContainer(t *testing.T) {
	t.Parallel()
	for _, template := range []string{"{{", "{{.Nme}}", "{{nofunc .ID}}", `{{pad "x" 999999999 1}}`, "{{.ContainerEnv}}", "{{.container}}", `{{index (split .Name "-") 9}}`, `{{pad (pad (pad "x" 1000 0) 1000 0) 1000 0}}`} {
		parsed, err := Parse(template)
		if err == nil {
			_, err = Expand(parsed, web(), Selection{})
		}
		if err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", template, err)
		}
	}
}

func TestAttributesHoldOnlyTheSelectedNames(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		selection Selection
		want      map[string]string
	}{
		"none":     {Selection{}, map[string]string{}},
		"names":    {Selection{Labels: []string{"team", "absent"}, Env: []string{"VERSION"}}, map[string]string{"team": "shop", "VERSION": "7"}},
		"patterns": {Selection{LabelsRegex: regexp.MustCompile("^t"), EnvRegex: regexp.MustCompile("^VER")}, map[string]string{"team": "shop", "tier": "front", "VERSION": "7"}},
	} {
		if got := web().Attributes(c.selection); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func FuzzExpand(f *testing.F) {
	f.Add("{{.ID}} {{pad .Name 1 2}}")
	f.Add(`{{range split .Command " "}}{{.}}{{end}}`)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 200 {
			return
		}
		parsed, err := Parse(text)
		if err != nil {
			return
		}
		if got, err := Expand(parsed, web(), Selection{}); err == nil && len(got) > maxTag {
			t.Fatalf("%d bytes", len(got))
		}
	})
}
