package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/admin/session"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/telemetry"
)

const (
	sessionCookie = "logboom-session"
	attemptCookie = "logboom-company"

	maxFormBytes  = 64 << 10
	changeTimeout = 15 * time.Second
)

// request is a request that may be answered: the session, the role and the
// project were looked at.
type request struct {
	echo.Context
	pages   *Pages
	person  session.Person  // the zero value where nobody is signed in
	project project.Project // of routes with :project, else zero
}

// guarded is a route's handler behind its role. Whoever may not see a project
// cannot tell by any page that it is there.
func (p *Pages) guarded(r route) echo.HandlerFunc {
	return func(c echo.Context) error {
		in := &request{Context: c, pages: p}
		in.setHeaders()
		if err := in.admit(r); err != nil {
			return in.fail(err)
		}
		if err := r.handle(in); err != nil {
			return in.fail(err)
		}
		return nil
	}
}

// setHeaders sets what every page says to a browser.
func (r *request) setHeaders() {
	h := r.Response().Header()
	h.Set("Content-Security-Policy", "default-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "no-store")
	if secure, err := r.pages.cookies.Secure(r.Request()); err == nil && secure {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// admit lets the request pass, or says why not.
func (r *request) admit(to route) error {
	if err := r.pages.origin.Check(r.Request()); err != nil {
		return errForeign
	}
	r.Request().Body = http.MaxBytesReader(r.Response(), r.Request().Body, maxFormBytes)
	person, err := r.pages.Person(r.Request())
	if err != nil && !errors.Is(err, session.ErrNone) {
		return err
	}
	r.person = person
	if to.access == anyone {
		return nil
	}
	if person.Email == "" {
		return session.ErrNone
	}
	if strings.Contains(to.path, ":project") {
		if err := r.findProject(); err != nil {
			return err
		}
	}
	if !r.may(to.access) {
		return errForbidden
	}
	return nil
}

// may is the one place that joins people to pages.
func (r *request) may(a access) bool {
	switch a {
	case anyone:
		return true
	case signedIn:
		return r.person.Email != ""
	case member:
		return r.person.May(r.project, false)
	case manager:
		return r.person.May(r.project, true)
	case owner:
		return r.person.MayManage()
	}
	return false
}

// findProject is the one way in which a page finds its project. A project of
// others is not found.
func (r *request) findProject() error {
	found, err := r.pages.deps.Directory.Project(r.Request().Context(), r.Param("project"))
	if err != nil {
		return err
	}
	if !r.person.May(found, false) {
		return fmt.Errorf("project %s: %w", found.Name, project.ErrNotFound)
	}
	r.project = found
	return nil
}

// readForm reads what a form sent, bounded before it is held.
func (r *request) readForm() (url.Values, error) {
	if err := r.Request().ParseForm(); err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return nil, errFormTooLarge
		}
		return nil, errFormUnread
	}
	return r.Request().PostForm, nil
}

// changing is the context of a change. It outlives the connection: who hangs up
// shall not leave half of a change, nor one that was not written down.
func (r *request) changing() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.Request().Context()), r.pages.allowed)
}

// asking is the context of a page's questions to ClickHouse.
func (r *request) asking() (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.Request().Context(), r.pages.cfg.QueryTimeout)
}

// changed writes down what the request did.
func (r *request) changed(ctx context.Context, action, target string) {
	r.pages.deps.Service.Changed(ctx, Change{
		Time: r.pages.now().UTC(), Action: action, By: r.person.Email, Project: r.project.Name, ProjectID: r.project.ID, Target: target,
		RequestID: telemetry.RequestID(r), Address: r.RealIP(),
	})
}

// goTo sends the browser to a page, after a form too.
func (r *request) goTo(address string) error {
	return r.Redirect(http.StatusSeeOther, address)
}

// projectPath is the address of a page of the request's project.
func (r *request) projectPath(page string) string {
	return projectsPath + "/" + url.PathEscape(r.project.Name) + page
}
