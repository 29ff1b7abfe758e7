package web

import (
	"errors"
	"net/http"

	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/telemetry"
)

// setUpView is the form that makes the first administrator.
type setUpView struct {
	Email  string
	Field  string // which one is wrong
	Fault  string
	Advice string
}

// setUpPage is open until the first administrator was made, and never again.
func (p *Pages) setUpPage(r *request) error {
	if err := p.stillOpen(r); err != nil {
		return err
	}
	return r.setUpForm(http.StatusOK, setUpView{})
}

func (p *Pages) stillOpen(r *request) error {
	open, err := p.deps.Directory.FirstAdminOpen(r.Request().Context())
	if err == nil && !open {
		err = errGone
	}
	return err
}

func (r *request) setUpForm(status int, v setUpView) error {
	if _, err := r.pages.cookies.Secure(r.Request()); err != nil {
		v.Advice = plainAdvice
	}
	return r.renderStatus(status, "setup", view{Title: "Set up", Body: v})
}

// setUp makes the first administrator for whoever has a set-up code, and lets
// them in. The record's compare-and-set decides who was first.
func (p *Pages) setUp(r *request) error {
	form, err := r.readForm()
	if err != nil {
		return err
	}
	if _, err := p.cookies.Secure(r.Request()); err != nil {
		return err
	}
	if err := p.stillOpen(r); err != nil {
		return err
	}
	if err := p.deps.Gate.Try(r.RealIP()); err != nil {
		return err
	}
	again := setUpView{Email: form.Get("email")}
	good, err := p.deps.Sessions.IsSetupCode(r.Request().Context(), form.Get("code"))
	if err != nil {
		return err
	}
	if !good {
		telemetry.SetCode(r, "wrong_code")
		again.Field, again.Fault = "code", "This is not the code. It is in the newest lines of the admin process's log."
		return r.setUpForm(http.StatusForbidden, again)
	}
	ctx, cancel := r.changing()
	defer cancel()
	user, err := p.deps.Directory.CreateFirstAdmin(ctx, form.Get("email"), project.NewSecret(form.Get("password")))
	if errors.Is(err, project.ErrClosed) {
		return errGone
	}
	if field, fault, ok := faultOf(err); ok {
		again.Field, again.Fault = field, fault
		return r.setUpForm(http.StatusBadRequest, again)
	}
	if err != nil {
		return err
	}
	p.deps.Gate.Passed(r.RealIP())
	r.person.Email = user.Email
	r.changed(ctx, "user.created", user.Email)
	return r.enter(user, projectsPath)
}
