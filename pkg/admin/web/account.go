package web

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/logboom/logboom/pkg/admin/session"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/telemetry"
)

// choiceAge is how long a browser keeps what a person chose.
const choiceAge = 365 * 24 * time.Hour

// accountView is what was wrong with a change of the password, if anything.
type accountView struct {
	Field string
	Fault string
}

// account shows who is signed in and what this browser was told to do.
func (p *Pages) account(r *request) error { return r.showAccount(http.StatusOK, accountView{}) }

func (r *request) showAccount(status int, v accountView) error {
	return r.renderStatus(status, "account", view{Title: "Account", Tab: "account", Body: v})
}

// changePassword changes the person's own password. Their sessions end, all but
// this browser's, which begins anew.
func (p *Pages) changePassword(r *request) error {
	form, err := r.readForm()
	if err != nil {
		return err
	}
	if form.Get("password") != form.Get("again") {
		return r.showAccount(http.StatusBadRequest, accountView{"again", "This is not what you typed above."})
	}
	ctx, cancel := r.changing()
	defer cancel()
	old, fresh := project.NewSecret(form.Get("old")), project.NewSecret(form.Get("password"))
	user, err := p.deps.Gate.ChangePassword(ctx, r.person.Email, old, fresh, r.RealIP())
	if err != nil {
		return r.keptPassword(err)
	}
	r.changed(ctx, "person.password_changed", "")
	if err := r.renew(ctx, user); err != nil {
		return err
	}
	return r.goTo(accountPath + "?done=password-changed")
}

// keptPassword shows why the password is still the old one.
func (r *request) keptPassword(err error) error {
	var throttled *session.ThrottledError
	if errors.Is(err, project.ErrCredentials) {
		telemetry.SetCode(r, "wrong_credentials")
		return r.showAccount(http.StatusForbidden, accountView{"old", "This is not your password."})
	}
	if errors.As(err, &throttled) {
		telemetry.SetCode(r, "rate_limited")
		r.setRetryAfter(throttled.RetryAfter)
		return r.showAccount(http.StatusTooManyRequests, accountView{"old", "There were " + throttled.Error() + ", then try again."})
	}
	if field, fault, ok := faultOf(err); ok {
		return r.showAccount(http.StatusBadRequest, accountView{field, fault})
	}
	return err
}

// changeAccount keeps the choices of this browser.
func (p *Pages) changeAccount(r *request) error {
	form, err := r.readForm()
	if err != nil {
		return err
	}
	keys := "off"
	if form.Get("keys") == "on" {
		keys = "on"
	}
	r.keep(keysCookie, keys)
	r.keepTheme(form.Get("theme"))
	return r.goTo(accountPath + "?done=account-saved")
}

// chooseTheme is the switch in the top bar, for browsers without script.
func (p *Pages) chooseTheme(r *request) error {
	form, err := r.readForm()
	if err != nil {
		return err
	}
	r.keepTheme(form.Get("theme"))
	back := form.Get("back")
	if parsed, err := url.Parse(back); err != nil || !isLocal(back) || parsed.Path == "" {
		back = projectsPath
	}
	return r.goTo(back)
}

func (r *request) keepTheme(theme string) {
	switch theme {
	case "light", "dark", "auto":
		r.keep(themeCookie, theme)
	}
}

// keep sets a cookie that this server's scripts may change too.
func (r *request) keep(name, value string) {
	secure, err := r.pages.cookies.Secure(r.Request())
	r.SetCookie(&http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: int(choiceAge / time.Second), SameSite: http.SameSiteLaxMode, Secure: secure && err == nil,
	})
}
