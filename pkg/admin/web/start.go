package web

import (
	"embed"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/logboom/logboom/pkg/token"
)

//go:embed snippets
var snippetFiles embed.FS

// snippet is the configuration of one kind of client, ready to be pasted.
type snippet struct {
	ID   string
	Name string
	Note string
	Text string
}

// startView is "Send your first log".
type startView struct {
	Snippets []snippet
	Token    string // filled in if it was just created
	Ingest   string
	First    bool // something is stored already
	Tokens   int
	Name     string // of the token to be created
	Fault    string
}

// noToken stands in the snippets in place of an unknown token.
const noToken = "YOUR_TOKEN"

func (p *Pages) startPage(r *request) error { return r.showStart(http.StatusOK, startView{}) }

// startWithToken fills a token in that was just created on another page, or
// creates one. It comes by a form, so that no address contains it.
func (p *Pages) startWithToken(r *request) error {
	if given := r.form.Get("token"); given != "" {
		if _, err := token.Parse(given); err != nil {
			return errGone
		}
		return r.showStart(http.StatusOK, startView{Token: given})
	}
	_, value, err := p.service.CreateToken(r.Request().Context(), r.caller, r.project, r.form.Get("name"))
	if _, fault, ok := faultOf(err); ok {
		return r.showStart(http.StatusBadRequest, startView{Name: r.form.Get("name"), Fault: fault})
	}
	if err != nil {
		return err
	}
	return r.showStart(http.StatusOK, startView{Token: value.Reveal()})
}

func (r *request) showStart(status int, v startView) error {
	v.Ingest = r.ingestURL()
	tokens, err := r.pages.service.Tokens(r.Request().Context(), r.project)
	if err != nil {
		return err
	}
	v.Tokens = len(tokens)
	if v.First, err = r.hasFirst(); err != nil {
		r.pages.logger.Warn("usage not shown", "project", r.project.Name, "err", err)
	}
	if v.Snippets, err = snippets(v.Ingest, v.Token, r.project.Name); err != nil {
		return err
	}
	return r.renderStatus(status, "start", view{Title: "Send your first log · " + r.project.Name, Tab: "settings", Secret: v.Token != "", Body: v})
}

// hasFirst reports whether something was stored in the last 24 hours.
func (r *request) hasFirst() (bool, error) {
	ctx, cancel := r.querying()
	defer cancel()
	u, err := r.pages.readUsage(ctx, r.project, shownHours, false)
	return u.Stored > 0, err
}

// startState tells the script of the page whether the first record is stored.
func (p *Pages) startState(r *request) error {
	first, err := r.hasFirst()
	if err != nil {
		return err
	}
	return r.JSON(http.StatusOK, map[string]bool{"first": first})
}

// snippets fills the embedded texts in. The first line of each is its name, the
// second a note about it.
func snippets(ingest, token, projectName string) ([]snippet, error) {
	if token == "" {
		token = noToken
	}
	at, err := url.Parse(ingest)
	if err != nil {
		return nil, err
	}
	port := at.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[at.Scheme]
	}
	tls := "off"
	if at.Scheme == "https" {
		tls = "on"
	}
	fill := strings.NewReplacer("{{url}}", ingest, "{{host}}", at.Hostname(), "{{port}}", port, "{{tls}}", tls, "{{token}}", token, "{{project}}", projectName)
	names, err := fs.Glob(snippetFiles, "snippets/*.txt") // sorted
	if err != nil {
		return nil, err
	}
	var list []snippet
	for _, name := range names {
		content, err := snippetFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		lines := strings.SplitN(string(content), "\n", 3)
		if len(lines) < 3 {
			return nil, errors.New(name + ": has no text")
		}
		id, _, _ := strings.Cut(strings.TrimPrefix(name, "snippets/"), ".")
		list = append(list, snippet{"s" + id, lines[0], lines[1], strings.TrimRight(fill.Replace(lines[2]), "\n")})
	}
	return list, nil
}

// plainHost matches what is safe in a line that people paste into a shell.
var plainHost = regexp.MustCompile(`^([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])$`)

// ingestURL returns where clients reach ingest: the address in the settings, or
// the host of this request with ingest's port.
func (r *request) ingestURL() string {
	if r.pages.cfg.IngestURL != "" {
		return strings.TrimSuffix(r.pages.cfg.IngestURL, "/")
	}
	host := r.Request().Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
	}
	if !plainHost.MatchString(host) {
		host = "localhost"
	}
	return "http://" + host + ":" + r.pages.cfg.IngestPort
}
