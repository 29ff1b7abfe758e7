package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/logboom/logboom/pkg/admin/session"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/telemetry"
)

// attemptAge is how long a sign-in at an issuer may take.
const attemptAge = 10 * time.Minute

// signInView is the sign-in with what was wrong the last time.
type signInView struct {
	Email   string
	Next    string // where to go on to
	Fault   string
	Advice  string // why nobody can sign in this way
	Company bool   // there are company accounts
}

// home sends whoever is signed in to their projects.
func (p *Pages) home(r *request) error { return r.goTo(projectsPath) }

func (p *Pages) signInPage(r *request) error {
	if r.person.Email != "" {
		return r.goTo(nextOf(r.QueryParam("next")))
	}
	open, err := p.deps.Directory.FirstAdminOpen(r.Request().Context())
	if err != nil {
		return err
	}
	if open {
		return r.goTo(setUpPath)
	}
	return r.signInForm(http.StatusOK, signInView{Next: r.QueryParam("next")})
}

func (r *request) signInForm(status int, v signInView) error {
	if !isLocal(v.Next) {
		v.Next = ""
	}
	v.Company = r.pages.deps.OIDC != nil
	if _, err := r.pages.cookies.Secure(r.Request()); err != nil {
		v.Advice = plainAdvice
	}
	return r.renderStatus(status, "signin", view{Title: "Sign in", Body: v})
}

// nextOf is where to go after the sign-in: to a page of this server only.
func nextOf(asked string) string {
	if isLocal(asked) {
		return asked
	}
	return projectsPath
}

// signIn lets somebody in by their password. What it answers to a wrong one is
// the same for an unknown address.
func (p *Pages) signIn(r *request) error {
	form, err := r.readForm()
	if err != nil {
		return err
	}
	if _, err := p.cookies.Secure(r.Request()); err != nil {
		return err // before the password is looked at
	}
	again := signInView{Email: form.Get("email"), Next: form.Get("next")}
	ctx, cancel := context.WithTimeout(r.Request().Context(), p.allowed) // there may be a queue
	defer cancel()
	user, err := p.deps.Gate.SignIn(ctx, form.Get("email"), project.NewSecret(form.Get("password")), r.RealIP())
	var throttled *session.ThrottledError
	switch {
	case errors.Is(err, project.ErrCredentials):
		telemetry.SetCode(r, "wrong_credentials")
		again.Fault = "E-mail address or password is wrong."
		return r.signInForm(http.StatusUnauthorized, again)
	case errors.As(err, &throttled):
		telemetry.SetCode(r, "rate_limited")
		r.setRetryAfter(throttled.RetryAfter)
		again.Fault = "There were " + throttled.Error() + ", then try again."
		return r.signInForm(http.StatusTooManyRequests, again)
	case err != nil:
		return err
	}
	return r.enter(user, nextOf(form.Get("next")))
}

// enter lets the user in.
func (r *request) enter(user project.User, next string) error {
	ctx := r.Request().Context()
	if err := r.renew(ctx, user); err != nil {
		return err
	}
	r.person.Email = user.Email
	r.changed(ctx, "person.signed_in", "")
	return r.goTo(next)
}

// renew begins a session under a new token, whatever cookie came with the
// request, and ends the one that it had.
func (r *request) renew(ctx context.Context, user project.User) error {
	sessions := r.pages.deps.Sessions
	if old := r.pages.cookies.Read(r.Request(), sessionCookie); old != "" {
		if err := sessions.End(ctx, old); err != nil {
			return err
		}
	}
	token, err := sessions.Begin(ctx, user)
	if err != nil {
		return err
	}
	return r.pages.cookies.Write(r.Response(), r.Request(), sessionCookie, token, session.Lifetime)
}

// signOut ends the session, also where its cookie says nothing to anybody.
func (p *Pages) signOut(r *request) error {
	if token := p.cookies.Read(r.Request(), sessionCookie); token != "" {
		if err := p.deps.Sessions.End(r.Request().Context(), token); err != nil {
			return err
		}
		if err := p.cookies.Write(r.Response(), r.Request(), sessionCookie, "", 0); err != nil {
			return err
		}
	}
	return r.goTo(signInPath + "?done=signed-out")
}

// companyBegin sends somebody to the issuer of company accounts.
func (p *Pages) companyBegin(r *request) error {
	if p.deps.OIDC == nil {
		return errGone
	}
	if err := p.deps.Gate.Try(r.RealIP()); err != nil {
		return err
	}
	address, attempt, err := p.deps.OIDC.Begin(r.Request().Context())
	if err != nil {
		return r.companyFault(err)
	}
	if err := p.cookies.Write(r.Response(), r.Request(), attemptCookie, attempt.String(), attemptAge); err != nil {
		return err
	}
	return r.goTo(address)
}

// companyBack lets somebody in whom the issuer sent back and who is a user.
func (p *Pages) companyBack(r *request) error {
	if p.deps.OIDC == nil {
		return errGone
	}
	attempt := session.ParseAttempt(p.cookies.Read(r.Request(), attemptCookie))
	if err := p.cookies.Write(r.Response(), r.Request(), attemptCookie, "", 0); err != nil {
		return err
	}
	email, err := p.deps.OIDC.Finish(r.Request().Context(), attempt, r.QueryParam("state"), r.QueryParam("code"))
	if err != nil {
		return r.companyFault(err)
	}
	user, err := p.deps.Directory.User(r.Request().Context(), email)
	if errors.Is(err, project.ErrNotFound) {
		return r.companyFault(errNotInvited)
	}
	if err != nil {
		return err
	}
	p.deps.Gate.Passed(r.RealIP())
	return r.enter(user, projectsPath)
}

var errNotInvited = errors.New("nobody here has the address of this company account: ask an administrator to add you")

// companyFault shows why a company account let nobody in. What the issuer said
// is for the log.
func (r *request) companyFault(err error) error {
	shown := session.ErrIssuer
	for _, known := range []error{session.ErrForeignAttempt, session.ErrNotVerified, errNotInvited} {
		if errors.Is(err, known) {
			shown = known
		}
	}
	telemetry.SetCode(r, "company_account_refused")
	r.pages.deps.Logger.Warn("company account refused", "request_id", telemetry.RequestID(r), "err", err)
	return r.signInForm(http.StatusForbidden, signInView{Fault: sentence(shown.Error())})
}

// CompanyCallback is where an issuer sends people back to, below the address of
// the pages.
func CompanyCallback(public *url.URL) string {
	return public.JoinPath(signInPath, "company", "back").String()
}
