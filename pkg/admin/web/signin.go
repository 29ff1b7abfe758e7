package web

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/logboom/logboom/pkg/admin"
	"github.com/logboom/logboom/pkg/people"
	"github.com/logboom/logboom/pkg/secret"
	"github.com/logboom/logboom/pkg/telemetry"
)

// attemptAge is how long a company sign-in may last.
const attemptAge = 10 * time.Minute

// signInView is the sign-in form, with what was wrong the last time.
type signInView struct {
	Email   string
	Next    string // the page to show after the sign-in
	Fault   string
	Advice  string // why nobody can sign in over this connection
	Company bool   // there is company sign-in
}

// home leads to the projects.
func (p *Pages) home(r *request) error { return r.goTo(projectsPath) }

func (p *Pages) signInPage(r *request) error {
	if r.caller.Email != "" {
		return r.goTo(nextPath(r.QueryParam("next")))
	}
	open, err := p.service.SetupOpen(r.Request().Context())
	if err != nil {
		return err
	}
	if open {
		return r.goTo(setUpPath)
	}
	return r.showSignIn(http.StatusOK, signInView{Next: r.QueryParam("next")})
}

func (r *request) showSignIn(status int, v signInView) error {
	if !isLocal(v.Next) {
		v.Next = ""
	}
	v.Company = r.pages.service.HasCompanyAccounts()
	if _, err := r.pages.cookies.Secure(r.Request()); err != nil {
		v.Advice = plainAdvice
	}
	return r.renderStatus(status, "signin", view{Title: "Sign in", Body: v})
}

// nextPath returns where to go after the sign-in: to a page of this server only.
func nextPath(wanted string) string {
	if isLocal(wanted) {
		return wanted
	}
	return projectsPath
}

// throttledText says how long to wait after too many attempts.
func throttledText(err *people.ThrottledError) string {
	return sentence(err.Error() + ", then try again")
}

// signIn signs a person in by their password. An unknown address is answered
// like a wrong password.
func (p *Pages) signIn(r *request) error {
	if _, err := p.cookies.Secure(r.Request()); err != nil {
		return err // before the password is checked
	}
	again := signInView{Email: r.form.Get("email"), Next: r.form.Get("next")}
	token, err := p.service.SignIn(r.Request().Context(), r.caller, r.sessionToken(), r.form.Get("email"), secret.New(r.form.Get("password")))
	var throttled *people.ThrottledError
	switch {
	case errors.Is(err, people.ErrCredentials):
		telemetry.SetCode(r, "wrong_credentials")
		again.Fault = "E-mail address or password is wrong."
		return r.showSignIn(http.StatusUnauthorized, again)
	case errors.As(err, &throttled):
		telemetry.SetCode(r, "rate_limited")
		r.setRetryAfter(throttled.RetryAfter)
		again.Fault = throttledText(throttled)
		return r.showSignIn(http.StatusTooManyRequests, again)
	case err != nil:
		return err
	}
	return r.enter(token, nextPath(r.form.Get("next")))
}

// sessionToken returns the token of the session that the request carries.
func (r *request) sessionToken() string {
	return r.pages.cookies.Read(r.Request(), sessionCookie)
}

// setSession gives the browser the token of a session.
func (r *request) setSession(token string) error {
	return r.pages.cookies.Write(r.Response(), r.Request(), sessionCookie, token, people.Lifetime)
}

// enter gives the browser a session and leads to the next page.
func (r *request) enter(token, next string) error {
	if err := r.setSession(token); err != nil {
		return err
	}
	return r.goTo(next)
}

// signOut ends the session and deletes its cookie.
func (p *Pages) signOut(r *request) error {
	if token := r.sessionToken(); token != "" {
		if err := p.service.SignOut(r.Request().Context(), token); err != nil {
			return err
		}
		if err := p.cookies.Write(r.Response(), r.Request(), sessionCookie, "", 0); err != nil {
			return err
		}
	}
	return r.goTo(signInPath + "?done=signed-out")
}

// beginCompanySignIn sends a person to the company's sign-in page.
func (p *Pages) beginCompanySignIn(r *request) error {
	address, attempt, err := p.service.BeginCompanySignIn(r.Request().Context(), r.caller)
	if err != nil {
		return r.companyFault(err)
	}
	if err := p.cookies.Write(r.Response(), r.Request(), attemptCookie, attempt.String(), attemptAge); err != nil {
		return err
	}
	return r.goTo(address)
}

// finishCompanySignIn signs in the person whom the company's sign-in page sent
// back, if they are a user.
func (p *Pages) finishCompanySignIn(r *request) error {
	if !p.service.HasCompanyAccounts() {
		return admin.ErrNoCompany
	}
	attempt := people.ParseAttempt(p.cookies.Read(r.Request(), attemptCookie))
	if err := p.cookies.Write(r.Response(), r.Request(), attemptCookie, "", 0); err != nil {
		return err
	}
	token, err := p.service.FinishCompanySignIn(r.Request().Context(), r.caller, r.sessionToken(), attempt, r.QueryParam("state"), r.QueryParam("code"))
	if err != nil {
		return r.companyFault(err)
	}
	return r.enter(token, projectsPath)
}

// companyFault shows why a company account did not sign in. Details of the
// issuer's answer are only logged.
func (r *request) companyFault(err error) error {
	for _, known := range []error{people.ErrForeignAttempt, people.ErrNotVerified, admin.ErrNotInvited, people.ErrIssuer} {
		if errors.Is(err, known) {
			telemetry.SetCode(r, "company_account_refused")
			r.pages.logger.Warn("company sign-in refused", "request_id", telemetry.RequestID(r), "err", err)
			return r.showSignIn(http.StatusForbidden, signInView{Fault: sentence(known.Error())})
		}
	}
	return err
}

// CompanyCallback returns the address to which an issuer sends people back,
// below the address of the pages.
func CompanyCallback(public *url.URL) string {
	return public.JoinPath(signInPath, "company", "back").String()
}

// setUpView is the form that creates the first administrator.
type setUpView struct {
	Email  string
	Field  string // which one is wrong
	Fault  string
	Advice string
}

// setUpPage exists until the first administrator is created, and never again.
func (p *Pages) setUpPage(r *request) error {
	open, err := p.service.SetupOpen(r.Request().Context())
	if err != nil {
		return err
	}
	if !open {
		return admin.ErrSetupDone
	}
	return r.showSetUp(http.StatusOK, setUpView{})
}

func (r *request) showSetUp(status int, v setUpView) error {
	if _, err := r.pages.cookies.Secure(r.Request()); err != nil {
		v.Advice = plainAdvice
	}
	return r.renderStatus(status, "setup", view{Title: "Set up", Body: v})
}

// setUp creates the first administrator for a person with a set-up code, and
// signs them in.
func (p *Pages) setUp(r *request) error {
	if _, err := p.cookies.Secure(r.Request()); err != nil {
		return err
	}
	again := setUpView{Email: r.form.Get("email")}
	token, err := p.service.Setup(r.Request().Context(), r.caller, r.sessionToken(), r.form.Get("code"), r.form.Get("email"), secret.New(r.form.Get("password")))
	if errors.Is(err, admin.ErrSetupCode) {
		telemetry.SetCode(r, "wrong_code")
		again.Field, again.Fault = "code", "This is not the code. It is in the newest lines of the admin process's log."
		return r.showSetUp(http.StatusForbidden, again)
	}
	if field, fault, ok := faultOf(err); ok {
		again.Field, again.Fault = field, fault
		return r.showSetUp(http.StatusBadRequest, again)
	}
	if err != nil {
		return err
	}
	return r.enter(token, projectsPath)
}
