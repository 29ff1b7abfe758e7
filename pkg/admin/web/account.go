package web

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/logboom/logboom/pkg/people"
	"github.com/logboom/logboom/pkg/secret"
	"github.com/logboom/logboom/pkg/telemetry"
)

// choiceAge is how long a browser keeps a person's choices.
const choiceAge = 365 * 24 * time.Hour

// accountView is what was wrong with a change of the password, if anything.
type accountView struct {
	Field string
	Fault string
}

// accountPage shows who is signed in, and the choices of this browser.
func (p *Pages) accountPage(r *request) error { return r.showAccount(http.StatusOK, accountView{}) }

func (r *request) showAccount(status int, v accountView) error {
	return r.renderStatus(status, "account", view{Title: "Account", Tab: "account", Body: v})
}

// changePassword changes the person's own password. All their sessions end;
// this browser gets a new one.
func (p *Pages) changePassword(r *request) error {
	if r.form.Get("password") != r.form.Get("again") {
		return r.showAccount(http.StatusBadRequest, accountView{"again", "The two passwords differ."})
	}
	current, wanted := secret.New(r.form.Get("old")), secret.New(r.form.Get("password"))
	token, err := p.service.ChangePassword(r.Request().Context(), r.caller, r.sessionToken(), current, wanted)
	var throttled *people.ThrottledError
	switch {
	case errors.Is(err, people.ErrCredentials):
		telemetry.SetCode(r, "wrong_credentials")
		return r.showAccount(http.StatusForbidden, accountView{"old", "This is not your password."})
	case errors.As(err, &throttled):
		telemetry.SetCode(r, "rate_limited")
		r.setRetryAfter(throttled.RetryAfter)
		return r.showAccount(http.StatusTooManyRequests, accountView{"old", throttledText(throttled)})
	}
	if field, fault, ok := faultOf(err); ok {
		return r.showAccount(http.StatusBadRequest, accountView{field, fault})
	}
	if err != nil {
		return err
	}
	if err := r.setSession(token); err != nil {
		return err
	}
	return r.goTo(accountPath + "?done=password-changed")
}

// changeAccount stores the choices of this browser.
func (p *Pages) changeAccount(r *request) error {
	keys := "off"
	if r.form.Get("keys") == "on" {
		keys = "on"
	}
	r.setChoice(keysCookie, keys)
	r.setTheme(r.form.Get("theme"))
	return r.goTo(accountPath + "?done=account-saved")
}

// chooseTheme is the switch in the top bar, for browsers without script.
func (p *Pages) chooseTheme(r *request) error {
	r.setTheme(r.form.Get("theme"))
	back := r.form.Get("back")
	if parsed, err := url.Parse(back); err != nil || !isLocal(back) || parsed.Path == "" {
		back = projectsPath
	}
	return r.goTo(back)
}

func (r *request) setTheme(theme string) {
	switch theme {
	case "light", "dark", "auto":
		r.setChoice(themeCookie, theme)
	}
}

// setChoice sets a cookie that scripts of the pages may change too.
func (r *request) setChoice(name, value string) {
	secure, err := r.pages.cookies.Secure(r.Request())
	r.SetCookie(&http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: int(choiceAge / time.Second), SameSite: http.SameSiteLaxMode, Secure: secure && err == nil,
	})
}
