package web

import (
	"errors"
	"net/http"

	"github.com/logboom/logboom/pkg/project"
)

// userPasswordView is the form that gives a user another initial password.
type userPasswordView struct {
	Email string
	Fault string
}

func (p *Pages) userPasswordPage(r *request) error {
	user, err := p.deps.Directory.User(r.Request().Context(), r.QueryParam("email"))
	if err != nil {
		return err
	}
	return r.askForPassword(http.StatusOK, userPasswordView{Email: user.Email})
}

func (r *request) askForPassword(status int, v userPasswordView) error {
	return r.renderStatus(status, "userpassword", view{Title: "New password", Tab: "installation", Side: "users", Body: v})
}

// setUserPassword gives a user another initial password, and so signs them out
// everywhere. One's own is changed where the old one is asked for.
func (p *Pages) setUserPassword(r *request) error {
	form, err := r.readForm()
	if err != nil {
		return err
	}
	ctx, cancel := r.changing()
	defer cancel()
	user, err := p.deps.Directory.User(ctx, form.Get("email"))
	if err != nil {
		return err
	}
	if user.Email == r.person.Email {
		return r.askForPassword(http.StatusBadRequest, userPasswordView{user.Email, "Change your own password on the account page."})
	}
	_, err = p.deps.Directory.SetPassword(ctx, user.Email, project.NewSecret(form.Get("password")))
	if errors.Is(err, project.ErrCredentials) {
		return r.askForPassword(http.StatusConflict, userPasswordView{user.Email, "The password was changed by somebody else just now: theirs counts."})
	}
	if _, fault, ok := faultOf(err); ok {
		return r.askForPassword(http.StatusBadRequest, userPasswordView{user.Email, fault})
	}
	if err != nil {
		return err
	}
	r.changed(ctx, "user.password_set", user.Email)
	return r.goTo(usersPath + "?done=user-password")
}
