package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/admin"
	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/kv"
	"github.com/logboom/logboom/pkg/people"
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

// functions are the functions of the templates.
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

// icon returns a picture of the sprite, which screen readers skip.
func icon(a *assets, name string) (template.HTML, error) {
	sprite, err := a.path("icons.svg")
	if err != nil {
		return "", err
	}
	if !bytes.Contains(a.files["icons.svg"].plain, []byte(`id="`+name+`"`)) {
		return "", fmt.Errorf("no icon %s", name)
	}
	return template.HTML(`<svg class="icon" aria-hidden="true"><use href="` + sprite + `#` + name + `"/></svg>`), nil // both are parts of this binary
}

// dict returns the argument of a template that needs several values.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("dict: %d arguments", len(pairs))
	}
	values := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		key, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("dict: argument %d is not a name", i)
		}
		values[key] = pairs[i+1]
	}
	return values, nil
}

// view is what a handler says about its page.
type view struct {
	Title  string // of the browser's tab
	Tab    string // the entry of the top bar: logs, events, settings, projects, operations, installation
	Side   string // the entry of the side navigation, or ""
	Done   string // what a form did before this page; renderStatus sets it
	Secret bool   // the page shows a secret, so that it is not compressed
	Body   any    // the value of "main"
}

// page is the value of layout.html.
type page struct {
	view
	Person    admin.Caller
	Project   project.Project
	MayChange bool // the project
	MayManage bool // the installation
	Theme     string
	Keys      bool // keyboard shortcuts are on
	Version   string
	Path      string // of this page
	Now       time.Time
}

// themeCookie and keysCookie store a person's choices. Scripts may read and
// write both, because no right depends on them.
const (
	themeCookie = "logboom-theme"
	keysCookie  = "logboom-keys"
)

// render answers 200 with the page of the name.
func (r *request) render(name string, v view) error { return r.renderStatus(http.StatusOK, name, v) }

// renderStatus is render with another status. If the template fails, nothing has
// been sent.
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

// page returns the view with what layout.html shows around it.
func (r *request) page(v view) page {
	return page{
		view: v, Person: r.caller, Project: r.project, MayChange: r.caller.May(admin.Manager, r.project), MayManage: r.caller.May(admin.Owner, r.project),
		Theme: r.theme(), Keys: r.cookieValue(keysCookie) != "off", Version: telemetry.Version(), Path: r.Request().URL.Path, Now: r.pages.now().UTC(),
	}
}

// minCompressed is the smallest page that is worth compressing, in bytes.
const minCompressed = 1400

// send sends a page, compressed if that is worth it. A page that shows a secret
// is never compressed, because its length would reveal parts of the secret.
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

// theme returns light, dark, or "" for the browser's preference.
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

// doneTexts are the messages that pages show after a form, by the code in the
// address. Text in an address is never shown.
var doneTexts = map[string]string{
	"token-revoked":    "The token is revoked. Clients that use it are refused within 2 seconds.",
	"project-deleted":  "The project is deleted. Its data is being deleted in the background.",
	"settings-saved":   "The changes are saved.",
	"alerts-saved":     "The alerts are saved.",
	"alerts-off":       "Alerts are off, and the address is deleted.",
	"user-created":     "The user can sign in now.",
	"user-changed":     "The user's role and projects are changed. The change applies from the user's next click.",
	"user-password":    "The user's password is changed. The user is signed out everywhere.",
	"user-deleted":     "The user is deleted and signed out everywhere.",
	"key-revoked":      "The API key is revoked.",
	"signed-out":       "You are signed out.",
	"account-saved":    "Your choices are stored in this browser.",
	"password-changed": "Your password is changed. Other browsers are signed out.",
	"letters-replayed": "The selected dead letters are in the queue again.",
}

// pageWriter sends a page in parts, compressed if the browser accepts that.
type pageWriter struct {
	io.Writer
	flush func()
}

// newPageWriter sends the header of the answer.
func (r *request) newPageWriter(status int) (w pageWriter, end func()) {
	h := r.Response().Header()
	h.Set("Vary", "Accept-Encoding, Cookie")
	h.Set("X-Accel-Buffering", "no") // or a proxy might wait for the whole page
	h.Set(echo.HeaderContentType, echo.MIMETextHTMLCharsetUTF8)
	push := func() { _ = http.NewResponseController(r.Response()).Flush() } // if this fails, the part arrives with the next one
	if !acceptsGzip(r.Request()) {
		r.Response().WriteHeader(status)
		return pageWriter{r.Response(), push}, func() {}
	}
	h.Set(echo.HeaderContentEncoding, "gzip")
	r.Response().WriteHeader(status)
	zipped := gzip.NewWriter(r.Response())
	flush := func() {
		_ = zipped.Flush() // the next write returns its error
		push()
	}
	return pageWriter{zipped, flush}, func() { _ = zipped.Close() }
}

// stream renders a page whose parts are sent one after the other: the template
// calls {{.Body.Flush}} to send what it has written. If the template fails, it
// is too late for an error page: the page is cut off and the error is logged.
func (r *request) stream(status int, name string, v view, flusher *func()) error {
	found, ok := r.pages.templates[name]
	if !ok {
		return fmt.Errorf("no template %s", name)
	}
	to, end := r.newPageWriter(status)
	defer end()
	*flusher = to.flush
	if err := found.ExecuteTemplate(to, "layout.html", r.page(v)); err != nil && r.Request().Context().Err() == nil {
		r.pages.logger.Warn("page cut off", "page", name, "project", r.project.Name, "err", err)
	}
	return nil
}

var (
	errCrossSite    = errors.New("the form was sent from another site's page")
	errFormTooLarge = errors.New("the form is over 64 KiB")
	errFormInvalid  = errors.New("the form could not be read")
	errGone         = errors.New("what the page was about does not exist")
)

// refusal is a page that says why a request was refused.
type refusal struct {
	Status int
	Code   string // as in the JSON API's problems, for metrics
	Title  string
	Detail string
}

// refusalOf returns the page for an error. It is the one place that chooses
// status codes.
func refusalOf(err error) refusal {
	var throttled *people.ThrottledError
	var routing *echo.HTTPError
	switch {
	case errors.Is(err, errCrossSite):
		return refusal{http.StatusForbidden, "cross_origin", "This form came from another site", "Nothing was changed. Open the page on this site and send the form again."}
	case errors.Is(err, admin.ErrForbidden):
		return refusal{http.StatusForbidden, "forbidden", "Your role does not allow this", "Ask an administrator to do it, or to change your role."}
	case isMissing(err):
		return refusal{http.StatusNotFound, "not_found", "There is no such page", "It may have been deleted, or it belongs to a project that you are not a member of."}
	case errors.As(err, &throttled):
		return refusal{http.StatusTooManyRequests, "rate_limited", "Too many tries", throttledText(throttled)}
	case errors.Is(err, people.ErrPlain):
		return refusal{http.StatusForbidden, "not_encrypted", "This connection is not encrypted", plainAdvice}
	case errors.Is(err, errFormTooLarge):
		return refusal{http.StatusRequestEntityTooLarge, "body_too_large", "The form is too large", "It may hold 64 KiB. Nothing was changed."}
	case errors.Is(err, errFormInvalid):
		return refusal{http.StatusBadRequest, "invalid_form", "The form could not be read", "Nothing was changed. Go back, reload the page and try again."}
	case errors.Is(err, project.ErrFull):
		return refusal{http.StatusConflict, "limit_reached", "The limit is reached", "Delete one that is not used."}
	case errors.As(err, &routing):
		return refusal{routing.Code, "not_found", http.StatusText(routing.Code), "Check the address."}
	}
	return serverRefusal(err)
}

// isMissing reports whether an error says that something does not exist.
func isMissing(err error) bool {
	for _, one := range []error{project.ErrNotFound, admin.ErrNoToken, admin.ErrNoKey, admin.ErrSetupDone, admin.ErrNoCompany, errGone} {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}

const plainAdvice = "Passwords and sessions would be readable on the network. Open the pages over https and start the server with LOGBOOM_PUBLIC_URL set to that address. " +
	"In a trusted network, LOGBOOM_PUBLIC_URL=http://… allows unencrypted connections. On the server's own machine, http://localhost always works."

// serverRefusal returns the page for an error that the client did not cause.
func serverRefusal(err error) refusal {
	switch {
	case errors.Is(err, admin.ErrTailsFull):
		return refusal{http.StatusServiceUnavailable, "too_many_tails", "Too many live tails are open", "Try again in a few seconds."}
	case errors.Is(err, people.ErrBusy):
		return refusal{http.StatusServiceUnavailable, "sign_in_busy", "Too many people sign in at once", "Your password was not checked. Try again in a few seconds."}
	case errors.Is(err, project.ErrNoKey):
		return refusal{http.StatusServiceUnavailable, "secret_key_missing", "Webhook addresses cannot be decrypted", "They are stored encrypted, and the server has no key for them: set LOGBOOM_SECRET_KEY and restart it."}
	case errors.Is(err, project.ErrUnavailable), errors.Is(err, kv.ErrUnavailable):
		return refusal{http.StatusServiceUnavailable, "queue_unavailable", "Projects could not be read or changed", "The queue that stores them does not answer. Try again in a few seconds."}
	case errors.Is(err, clickhouse.ErrTooExpensive), errors.Is(err, context.DeadlineExceeded):
		return refusal{http.StatusServiceUnavailable, "query_timeout", "The query took too long", "Choose a shorter time, or try again."}
	}
	return refusal{http.StatusServiceUnavailable, "store_unavailable", "Stored records could not be read", "The database does not answer. The queue stores what clients send meanwhile. Try again in a few seconds."}
}

// fail answers an error: with the sign-in if nobody is signed in, and else with
// a page that says what happened and what to do.
func (r *request) fail(err error) error {
	if errors.Is(err, people.ErrNoSession) {
		return r.sendToSignIn()
	}
	var throttled *people.ThrottledError
	if errors.As(err, &throttled) {
		r.setRetryAfter(throttled.RetryAfter)
	}
	found := refusalOf(err)
	telemetry.SetCode(r, found.Code)
	if found.Status >= http.StatusInternalServerError {
		r.pages.logger.Warn("page refused", "code", found.Code, "request_id", telemetry.RequestID(r), "err", err)
	}
	return r.renderStatus(found.Status, "error", view{Title: found.Title, Body: found})
}

// sendToSignIn leads to the sign-in, and from there back to the requested page.
func (r *request) sendToSignIn() error {
	if r.Request().Method != http.MethodGet {
		return r.goTo(signInPath)
	}
	address := signInPath
	if back := r.Request().URL.RequestURI(); back != "/" && isLocal(back) {
		address += "?next=" + url.QueryEscape(back)
	}
	return r.goTo(address)
}

// isLocal reports whether an address is one of this server's pages, also for
// browsers that treat backslashes and control characters specially.
func isLocal(address string) bool {
	parsed, err := url.Parse(address)
	return err == nil && parsed.Scheme == "" && parsed.Host == "" && len(address) < 2048 &&
		strings.HasPrefix(address, "/") && !strings.HasPrefix(address, "//") && !strings.ContainsAny(address, "\\\r\n\t")
}

// notFound answers a path that is no route.
func (p *Pages) notFound(c echo.Context) error {
	if strings.HasPrefix(c.Request().URL.Path, "/api/") {
		return echo.ErrNotFound
	}
	in := p.newRequest(c)
	in.caller, _ = p.Person(c.Request()) // an error: the page is shown as to nobody
	return in.fail(errGone)
}
