package web

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/admin"
	"github.com/logboom/logboom/pkg/people"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/telemetry"
)

const (
	sessionCookie = "logboom-session"
	attemptCookie = "logboom-company"

	maxFormBytes = 64 << 10
)

// request is a request whose caller may do the operation of its route.
type request struct {
	echo.Context
	pages   *Pages
	caller  admin.Caller    // without Email if nobody is signed in
	project project.Project // of routes with :project, else zero
	form    url.Values      // of a POST
}

// authorized returns the route's handler for callers that may do its operation.
func (p *Pages) authorized(r route) echo.HandlerFunc {
	return func(c echo.Context) error {
		in := p.newRequest(c)
		err := in.authorize(r.operation)
		if err == nil {
			err = r.handle(in)
		}
		if err != nil {
			return in.fail(err)
		}
		return nil
	}
}

// newRequest sets the headers of every page.
func (p *Pages) newRequest(c echo.Context) *request {
	h := c.Response().Header()
	h.Set("Content-Security-Policy", "default-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "no-store")
	if secure, err := p.cookies.Secure(c.Request()); err == nil && secure {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
	return &request{Context: c, pages: p}
}

// authorize sets the caller, the project and the form of the request.
func (r *request) authorize(operation admin.Operation) error {
	if err := r.pages.origin.Check(r.Request()); err != nil {
		return errCrossSite
	}
	r.Request().Body = http.MaxBytesReader(r.Response(), r.Request().Body, maxFormBytes)
	var err error
	if r.caller, err = r.pages.Person(r.Request()); err != nil && !errors.Is(err, people.ErrNoSession) {
		return err
	}
	r.caller.RequestID, r.caller.Address = telemetry.RequestID(r), r.RealIP()
	if r.caller.Email == "" && operation.Access() != admin.Anyone {
		return people.ErrNoSession
	}
	if r.project, err = r.pages.service.Authorize(r.Request().Context(), r.caller, operation, r.Param("project")); err != nil {
		return err
	}
	err = r.Request().ParseForm()
	r.form = r.Request().PostForm
	var tooLarge *http.MaxBytesError
	switch {
	case r.Request().Method == http.MethodGet, err == nil:
		return nil
	case errors.As(err, &tooLarge):
		return errFormTooLarge
	}
	return errFormInvalid
}

// querying returns the context of a page's queries to ClickHouse.
func (r *request) querying() (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.Request().Context(), r.pages.cfg.QueryTimeout)
}

// goTo sends the browser to another page, after a form too.
func (r *request) goTo(address string) error {
	return r.Redirect(http.StatusSeeOther, address)
}

// projectPath returns the address of a page of the request's project.
func (r *request) projectPath(page string) string {
	return projectsPath + "/" + url.PathEscape(r.project.Name) + page
}

// setRetryAfter tells the browser how long to wait.
func (r *request) setRetryAfter(wait time.Duration) {
	r.Response().Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
}

// faultOf returns which field of a form is wrong and why, if that is what the
// error says.
func faultOf(err error) (field, fault string, ok bool) {
	var invalid *project.InvalidError
	if errors.As(err, &invalid) {
		return invalid.Field, sentence(invalid.Reason), true
	}
	return "", "", false
}

// sentence begins a text with a capital and ends it with a full stop.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}

// confirmation is a form that asks to type a name before something is deleted
// for good.
type confirmation struct {
	Title  string   // the question
	Texts  []string // what will happen
	Name   string   // what must be typed
	Action string   // the button
	Keep   string   // the address of the cancel link
	Hidden map[string]string
	Fault  string
}

// confirm reports whether the form was sent with the name. If not, it answers
// with the form.
func (r *request) confirm(v view, c confirmation) (ok bool, err error) {
	if r.Request().Method == http.MethodGet {
		return false, r.askAgain(http.StatusOK, v, c, "")
	}
	if strings.TrimSpace(r.form.Get("confirm")) != strings.TrimSpace(c.Name) {
		return false, r.askAgain(http.StatusBadRequest, v, c, "Type "+c.Name+" exactly as it is written.")
	}
	return true, nil
}

// askAgain answers with the form of a confirmation.
func (r *request) askAgain(status int, v view, c confirmation, fault string) error {
	c.Fault = fault
	v.Body = c
	return r.renderStatus(status, "confirm", v)
}
