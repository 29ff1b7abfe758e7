package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/admin/session"
	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/telemetry"
)

var (
	errForeign      = errors.New("the form was sent from another site's page")
	errForbidden    = errors.New("the person's role does not allow this")
	errFormTooLarge = errors.New("the form is over 64 KiB")
	errFormUnread   = errors.New("the form could not be read")
	errGone         = errors.New("what the page was about is gone")
)

// refusal is what a page says in place of what was asked for.
type refusal struct {
	Status int
	Code   string // as in the JSON API's problems, for metrics
	Title  string
	Detail string
}

// refusalOf is the one place where errors become pages.
func refusalOf(err error) refusal {
	var throttled *session.ThrottledError
	var routing *echo.HTTPError
	switch {
	case errors.Is(err, errForeign):
		return refusal{http.StatusForbidden, "cross_origin", "This form came from another site", "Nothing was changed. Open the page here and send the form again."}
	case errors.Is(err, errForbidden):
		return refusal{http.StatusForbidden, "forbidden", "Your role does not allow this", "Ask an administrator to do it, or to give you the role."}
	case errors.Is(err, project.ErrNotFound), errors.Is(err, errGone):
		return refusal{http.StatusNotFound, "not_found", "There is no such page", "It may have been deleted, or it belongs to a project that you are not a member of."}
	case errors.As(err, &throttled):
		return refusal{http.StatusTooManyRequests, "rate_limited", "Too many tries", "There were " + throttled.Error() + ", then try again."}
	case errors.Is(err, session.ErrPlain):
		return refusal{http.StatusForbidden, "not_encrypted", "This connection is not encrypted", plainAdvice}
	case errors.Is(err, errFormTooLarge):
		return refusal{http.StatusRequestEntityTooLarge, "body_too_large", "The form is too large", "It may hold 64 KiB. Nothing was changed."}
	case errors.Is(err, errFormUnread):
		return refusal{http.StatusBadRequest, "invalid_form", "The form could not be read", "Nothing was changed. Go back, reload the page and try again."}
	case errors.Is(err, project.ErrFull):
		return refusal{http.StatusConflict, "limit_reached", "There is room for no more", "Delete one that is not used."}
	case errors.As(err, &routing):
		return refusal{routing.Code, "not_found", http.StatusText(routing.Code), "Check the address."}
	}
	return serverRefusal(err)
}

const plainAdvice = "Passwords and sessions would be readable on the way. Open the pages by https and start the server with LOGBOOM_PUBLIC_URL set to that address; " +
	"where the network is trusted, LOGBOOM_PUBLIC_URL=http://… allows it without. From the machine itself, http://localhost works as it is."

// serverRefusal is an error that is not the asker's.
func serverRefusal(err error) refusal {
	switch {
	case errors.Is(err, project.ErrBusy):
		return refusal{http.StatusServiceUnavailable, "sign_in_busy", "Too many people sign in at once", "Your password was not looked at yet. Try again in a few seconds."}
	case errors.Is(err, project.ErrNoKey):
		return refusal{http.StatusServiceUnavailable, "secret_key_missing", "Webhook addresses cannot be opened", "They are kept sealed, and the server was not given the key: set LOGBOOM_SECRET_KEY and restart it."}
	case errors.Is(err, project.ErrUnavailable):
		return refusal{http.StatusServiceUnavailable, "queue_unavailable", "Projects could not be read or changed", "The queue that keeps them does not answer. Try again in a few seconds."}
	case errors.Is(err, clickhouse.ErrTooExpensive), errors.Is(err, context.DeadlineExceeded):
		return refusal{http.StatusServiceUnavailable, "query_timeout", "The question took too long", "Ask for a shorter time, or try again."}
	}
	return refusal{http.StatusServiceUnavailable, "store_unavailable", "Stored records could not be read", "The database does not answer. What is sent meanwhile is kept by the queue. Try again in a few seconds."}
}

// fail answers an error: with the sign-in where somebody has to sign in first,
// else with a page that says what happened and what to do.
func (r *request) fail(err error) error {
	if errors.Is(err, session.ErrNone) {
		return r.sendToSignIn()
	}
	var throttled *session.ThrottledError
	if errors.As(err, &throttled) {
		r.setRetryAfter(throttled.RetryAfter)
	}
	found := refusalOf(err)
	telemetry.SetCode(r, found.Code)
	if found.Status >= http.StatusInternalServerError {
		r.pages.deps.Logger.Warn("page refused", "code", found.Code, "request_id", telemetry.RequestID(r), "err", err)
	}
	return r.renderStatus(found.Status, "error", view{Title: found.Title, Body: found})
}

// sendToSignIn sends a browser to the sign-in, and from there back to the page
// that it asked for.
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

// isLocal tells whether an address is one of this server's pages, whatever a
// browser makes of slashes.
func isLocal(address string) bool {
	parsed, err := url.Parse(address)
	return err == nil && parsed.Scheme == "" && parsed.Host == "" && len(address) < 2048 &&
		strings.HasPrefix(address, "/") && !strings.HasPrefix(address, "//") && !strings.ContainsAny(address, "\\\r\n\t")
}

// notFound answers what is no route.
func (p *Pages) notFound(c echo.Context) error {
	if strings.HasPrefix(c.Request().URL.Path, "/api/") {
		return echo.ErrNotFound
	}
	in := &request{Context: c, pages: p}
	in.setHeaders()
	if person, err := p.Person(c.Request()); err == nil {
		in.person = person
	}
	return in.fail(errGone)
}
