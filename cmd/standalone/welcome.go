package main

import (
	"bytes"
	"io"
	"text/template"

	"github.com/logboom/logboom/pkg/project"
)

// welcomeText is what a person sees once everything is up. The secrets of a
// demo are in it on the first start only: later only their hashes are known.
var welcomeText = template.Must(template.New("welcome").Parse(`
Logboom is running.

  ingest   http://{{.Ingest}}
  admin    http://{{.Admin}}
{{- if .Token}}

Made on this first start, and shown only now:

  project  {{.Project}}
  token    {{.Token}}
  API key  {{.APIKey}}
  sign-in  {{.Email}}  {{.Password}}

Paste this line to put a log in and read it back:

  curl -sS http://{{.Ingest}}/v1/logs/{{.Project}} -H 'Authorization: Bearer {{.Token}}' -d '{"data":"hello from a laptop"}' && sleep 1 && curl -sS 'http://{{.Admin}}/api/v1/projects/{{.Project}}/logs?limit=1' -H 'Authorization: Bearer {{.APIKey}}'
{{- else if .First}}

What the bootstrap settings name was made.
{{- else}}

The data folder was in use before: its tokens and keys go on working. They are
kept as hashes and cannot be shown again.
{{- end}}

Stop with Ctrl-C.

`))

// welcome writes the text in one piece: the services log meanwhile, and a line
// of theirs must not land inside a key.
func welcome(w io.Writer, made project.Made, ingestAddr, adminAddr string) error {
	var text bytes.Buffer
	err := welcomeText.Execute(&text, struct {
		First                                                  bool
		Ingest, Admin, Project, Token, APIKey, Email, Password string
	}{
		made.First, ingestAddr, adminAddr, made.Project, made.Token.Reveal(), made.APIKey.Reveal(), made.AdminEmail, made.AdminPassword.Reveal(),
	})
	if err != nil {
		return err
	}
	_, err = w.Write(text.Bytes())
	return err
}
