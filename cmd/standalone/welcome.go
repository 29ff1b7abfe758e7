package main

import (
	"bytes"
	"io"
	"text/template"

	"github.com/logboom/logboom/pkg/people"
)

// welcomeText is printed once everything runs. It contains the demo's secrets
// only on the first start, because later only their hashes are known.
var welcomeText = template.Must(template.New("welcome").Parse(`
Logboom is running.

  ingest   http://{{.Ingest}}
  admin    http://{{.Admin}}
{{- if .Token}}

Created on this first start and shown only once:

  project  {{.Project}}
  token    {{.Token}}
  API key  {{.APIKey}}
  sign-in  {{.Email}}  {{.Password}}

Paste this line to send a log and read it back:

  curl -sS http://{{.Ingest}}/v1/logs/{{.Project}} -H 'Authorization: Bearer {{.Token}}' -d '{"data":"hello from a laptop"}' && sleep 1 && curl -sS 'http://{{.Admin}}/api/v1/projects/{{.Project}}/logs?limit=1' -H 'Authorization: Bearer {{.APIKey}}'
{{- else if .First}}

The project, token, key and admin of the bootstrap settings were created.
{{- else}}

The data folder was used before: its tokens and keys still work. They are stored
as hashes and cannot be shown again.
{{- end}}

Stop with Ctrl-C.

`))

// welcome writes the text with one call, because the services log at the same
// time and a log line must not split a key.
func welcome(w io.Writer, made people.Created, ingestAddr, adminAddr string) error {
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
