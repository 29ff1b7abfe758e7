package web

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/admin/session"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/telemetry"
)

//go:embed templates
var templateFiles embed.FS

// templates are the pages by name, each parsed with the frame around it.
type templates map[string]*template.Template

// frame is what every page is parsed with.
var frame = []string{"templates/layout.html", "templates/parts.html", "templates/logs_parts.html"}

func parseTemplates(a *assets) (templates, error) {
	base, err := template.New("layout.html").Funcs(functions(a)).ParseFS(templateFiles, frame...)
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		return nil, err
	}
	found := templates{}
	for _, name := range names {
		page, err := base.Clone()
		if err != nil {
			return nil, err
		}
		if page, err = page.ParseFS(templateFiles, name); err != nil {
			return nil, err
		}
		found[strings.TrimSuffix(path.Base(name), ".html")] = page
	}
	return found, nil
}

// functions are what templates may call.
func functions(a *assets) template.FuncMap {
	return template.FuncMap{
		"asset":  a.path,
		"icon":   func(name string) (template.HTML, error) { return icon(a, name) },
		"count":  formatCount,
		"number": number,
		"bytes":  formatBytes,
		"day":    func(t time.Time) string { return t.UTC().Format("2 Jan 2006") },
		"moment": func(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04:05") },
		"stamp":  func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"plural": plural,
		"join":   strings.Join,
		"dict":   dict,
		"units":  unitNames,

		"formatName": formatName,
		"severities": func() []string { return []string{"debug", "info", "notice", "warn", "error", "critical", "fatal"} },
	}
}

// icon is a picture of the sprite, which a reader of screens passes over.
func icon(a *assets, name string) (template.HTML, error) {
	sprite, err := a.path("icons.svg")
	if err != nil {
		return "", err
	}
	if !bytes.Contains(a.files["icons.svg"].plain, []byte(`id="`+name+`"`)) {
		return "", fmt.Errorf("no icon %s", name)
	}
	return template.HTML(`<svg class="icon" aria-hidden="true"><use href="` + sprite + `#` + name + `"/></svg>`), nil // both are this build's own
}

// dict makes the argument of a part that needs several.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("dict: %d arguments", len(pairs))
	}
	made := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		key, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("dict: argument %d is no name", i)
		}
		made[key] = pairs[i+1]
	}
	return made, nil
}

// view is what a handler says about its page.
type view struct {
	Title  string // of the browser's tab
	Tab    string // the entry of the top bar: logs, events, settings, projects, operations, installation
	Side   string // the entry of the navigation at the side, or none
	Done   string // what a form did before this page; set by render
	Secret bool   // the page shows a secret: it is not compressed
	Body   any    // what "main" is about
}

// page is what the frame's templates see.
type page struct {
	view
	Person    session.Person
	Project   project.Project
	MayChange bool // the project
	MayManage bool // the installation
	Theme     string
	Keys      bool // single keys act
	Version   string
	Path      string // of this page, to come back to
	Now       time.Time
}

// themeCookie and keysCookie hold what a person chose; both may be read and
// written by a script, and nothing hangs on them.
const (
	themeCookie = "logboom-theme"
	keysCookie  = "logboom-keys"
)

// render answers 200 with the page of the name.
func (r *request) render(name string, v view) error { return r.renderStatus(http.StatusOK, name, v) }

// renderStatus is render with another status. A template's failure is an error
// before anything was sent.
func (r *request) renderStatus(status int, name string, v view) error {
	found, ok := r.pages.templates[name]
	if !ok {
		return fmt.Errorf("no template %s", name)
	}
	if r.Request().Method == http.MethodGet {
		v.Done = doneTexts[r.QueryParam("done")]
	}
	var b bytes.Buffer
	if err := found.ExecuteTemplate(&b, "layout.html", r.page(v)); err != nil {
		return fmt.Errorf("page %s: %w", name, err)
	}
	return r.send(status, b.Bytes(), !v.Secret)
}

// page is what the frame shows around a view.
func (r *request) page(v view) page {
	return page{
		view: v, Person: r.person, Project: r.project, MayChange: r.may(manager), MayManage: r.may(owner),
		Theme: r.theme(), Keys: r.cookieValue(keysCookie) != "off", Version: telemetry.Version(), Path: r.Request().URL.Path, Now: r.pages.now().UTC(),
	}
}

// minCompressed is what is worth compressing.
const minCompressed = 1400

// send sends a page, compressed where that is worth it. Pages that show a
// secret are not: their length would tell of it.
func (r *request) send(status int, content []byte, mayCompress bool) error {
	h := r.Response().Header()
	h.Set("Vary", "Accept-Encoding, Cookie")
	if !mayCompress || len(content) < minCompressed || !acceptsGzip(r.Request()) {
		return r.HTMLBlob(status, content)
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(content) // to memory
	_ = w.Close()
	h.Set(echo.HeaderContentEncoding, "gzip")
	return r.HTMLBlob(status, b.Bytes())
}

// theme is light, dark, or empty for what the browser prefers.
func (r *request) theme() string {
	if chosen := r.cookieValue(themeCookie); chosen == "light" || chosen == "dark" {
		return chosen
	}
	return ""
}

func (r *request) cookieValue(name string) string {
	cookie, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	return cookie.Value
}

// doneTexts are what pages say after a form did its work, by the code in their
// address: no text of an address is ever shown.
var doneTexts = map[string]string{
	"token-revoked":    "The token is revoked. Senders that use it are refused within 2 seconds.",
	"project-deleted":  "The project is deleted. Its data is being erased in the background.",
	"settings-saved":   "The changes are saved.",
	"alerts-saved":     "The alerts are saved.",
	"alerts-off":       "Alerts are off, and the address is forgotten.",
	"user-created":     "The user may sign in now.",
	"user-changed":     "The user's role and projects are changed. It counts from their next click on.",
	"user-password":    "The user has the new password, and is signed out everywhere.",
	"user-deleted":     "The user is deleted and signed out everywhere.",
	"key-revoked":      "The API key is revoked.",
	"signed-out":       "You are signed out.",
	"account-saved":    "Your choice is kept in this browser.",
	"password-changed": "Your password is changed. Other browsers are signed out.",
	"letters-replayed": "The chosen dead letters are back on the queue.",
}
