package web

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/logboom/logboom/pkg/admin"
	"github.com/logboom/logboom/pkg/project"
)

// userRow is one user of the list.
type userRow struct {
	admin.User
	Self     bool
	Password string // address of the form for another password
	Delete   string // address of the form that deletes the user
}

// usersView is everybody who may sign in.
type usersView struct {
	Users []userRow
	Email string // of the form, like the fields below
	Role  project.Role
	Names string // of projects
	Field string
	Fault string
	Next  string
}

func (p *Pages) usersPage(r *request) error {
	return r.showUsers(http.StatusOK, usersView{Role: project.RoleMember})
}

const usersPerPage = 100

func (r *request) showUsers(status int, v usersView) error {
	list, next, err := r.pages.service.Users(r.Request().Context(), r.QueryParam("after"), usersPerPage)
	if err != nil {
		return err
	}
	v.Next = next
	for _, u := range list {
		query := "?email=" + url.QueryEscape(u.Email)
		v.Users = append(v.Users, userRow{u, u.Email == r.caller.Email, usersPath + "/password" + query, usersPath + "/delete" + query})
	}
	return r.renderStatus(status, "users", view{Title: "Users", Tab: "installation", Side: "users", Body: v})
}

// splitNames returns the names of projects that a form gives, separated by
// commas or spaces.
func splitNames(typed string) []string {
	return strings.FieldsFunc(typed, func(c rune) bool { return strings.ContainsRune(", \n\r\t", c) })
}

func (p *Pages) createUser(r *request) error {
	form, err := r.readForm()
	if err != nil {
		return err
	}
	again := usersView{Email: form.Get("email"), Role: project.Role(form.Get("role")), Names: form.Get("projects")}
	err = p.service.CreateUser(r.Request().Context(), r.caller, again.Email, project.NewSecret(form.Get("password")), again.Role, splitNames(again.Names))
	if errors.Is(err, project.ErrNameTaken) {
		again.Field, again.Fault = "email", "Another user has this address."
		return r.showUsers(http.StatusConflict, again)
	}
	if field, fault, ok := faultOf(err); ok {
		again.Field, again.Fault = field, fault
		return r.showUsers(http.StatusBadRequest, again)
	}
	if err != nil {
		return err
	}
	return r.goTo(usersPath + "?done=user-created")
}

// changeUser changes a user's role and projects.
func (p *Pages) changeUser(r *request) error {
	form, err := r.readForm()
	if err != nil {
		return err
	}
	email := form.Get("email")
	err = p.service.ChangeUser(r.Request().Context(), r.caller, email, project.Role(form.Get("role")), splitNames(form.Get("projects")))
	_, fault, refused := faultOf(err)
	if errors.Is(err, project.ErrLastAdmin) {
		fault, refused = sentence(project.ErrLastAdmin.Error()), true
	}
	if refused {
		return r.showUsers(http.StatusBadRequest, usersView{Role: project.RoleMember, Field: "row", Fault: email + ": " + fault})
	}
	if err != nil {
		return err
	}
	return r.goTo(usersPath + "?done=user-changed")
}

func (p *Pages) deleteUserPage(r *request) error {
	user, err := p.service.User(r.Request().Context(), r.QueryParam("email"))
	if err != nil {
		return err
	}
	return r.confirmUserDeletion(http.StatusOK, user, "")
}

func (r *request) confirmUserDeletion(status int, user project.User, fault string) error {
	return r.renderStatus(status, "confirm", view{Title: "Delete a user", Tab: "installation", Side: "users", Body: confirmation{
		Title: "Delete " + user.Email + "?",
		Texts: []string{"The user is signed out everywhere at once. API keys and tokens that the user created keep working."},
		Name:  user.Email, Action: "Delete user", Keep: usersPath, Fault: fault, Hidden: map[string]string{"email": user.Email},
	}})
}

func (p *Pages) deleteUser(r *request) error {
	form, err := r.readForm()
	if err != nil {
		return err
	}
	user, err := p.service.User(r.Request().Context(), form.Get("email"))
	if err != nil {
		return err
	}
	if !isConfirmed(form.Get("confirm"), user.Email) {
		return r.confirmUserDeletion(http.StatusBadRequest, user, notTyped(user.Email))
	}
	err = p.service.DeleteUser(r.Request().Context(), r.caller, user.Email)
	if _, fault, ok := faultOf(err); ok {
		return r.confirmUserDeletion(http.StatusBadRequest, user, fault)
	}
	if errors.Is(err, project.ErrLastAdmin) {
		return r.confirmUserDeletion(http.StatusConflict, user, sentence(project.ErrLastAdmin.Error()))
	}
	if err != nil {
		return err
	}
	return r.goTo(usersPath + "?done=user-deleted")
}

// userPasswordView is the form that sets a user's password.
type userPasswordView struct {
	Email string
	Fault string
}

func (p *Pages) userPasswordPage(r *request) error {
	user, err := p.service.User(r.Request().Context(), r.QueryParam("email"))
	if err != nil {
		return err
	}
	return r.showUserPassword(http.StatusOK, userPasswordView{Email: user.Email})
}

func (r *request) showUserPassword(status int, v userPasswordView) error {
	return r.renderStatus(status, "userpassword", view{Title: "New password", Tab: "installation", Side: "users", Body: v})
}

// setUserPassword sets another user's password, which signs the user out
// everywhere. One's own password is changed on the account page, which asks for
// the old one.
func (p *Pages) setUserPassword(r *request) error {
	form, err := r.readForm()
	if err != nil {
		return err
	}
	email := form.Get("email")
	err = p.service.SetUserPassword(r.Request().Context(), r.caller, email, project.NewSecret(form.Get("password")))
	if errors.Is(err, project.ErrCredentials) {
		return r.showUserPassword(http.StatusConflict, userPasswordView{email, "Somebody else changed the password at the same time. Their password is the valid one."})
	}
	if _, fault, ok := faultOf(err); ok {
		return r.showUserPassword(http.StatusBadRequest, userPasswordView{email, fault})
	}
	if err != nil {
		return err
	}
	return r.goTo(usersPath + "?done=user-password")
}
