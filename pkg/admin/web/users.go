package web

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/logboom/logboom/pkg/admin"
	"github.com/logboom/logboom/pkg/people"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/secret"
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
	Role  people.Role
	Names string // of projects
	Field string
	Fault string
	Next  string
}

func (p *Pages) usersPage(r *request) error {
	return r.showUsers(http.StatusOK, usersView{Role: people.RoleMember})
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
	again := usersView{Email: r.form.Get("email"), Role: people.Role(r.form.Get("role")), Names: r.form.Get("projects")}
	err := p.service.CreateUser(r.Request().Context(), r.caller, again.Email, secret.New(r.form.Get("password")), again.Role, splitNames(again.Names))
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
	email := r.form.Get("email")
	err := p.service.ChangeUser(r.Request().Context(), r.caller, email, people.Role(r.form.Get("role")), splitNames(r.form.Get("projects")))
	_, fault, refused := faultOf(err)
	if errors.Is(err, people.ErrLastAdmin) {
		fault, refused = sentence(people.ErrLastAdmin.Error()), true
	}
	if refused {
		return r.showUsers(http.StatusBadRequest, usersView{Role: people.RoleMember, Field: "row", Fault: email + ": " + fault})
	}
	if err != nil {
		return err
	}
	return r.goTo(usersPath + "?done=user-changed")
}

func (p *Pages) deleteUser(r *request) error {
	user, err := p.service.User(r.Request().Context(), r.FormValue("email"))
	if err != nil {
		return err
	}
	v := view{Title: "Delete a user", Tab: "installation", Side: "users"}
	c := confirmation{
		Title: "Delete " + user.Email + "?",
		Texts: []string{"The user is signed out everywhere at once. API keys and tokens that the user created keep working."},
		Name:  user.Email, Action: "Delete user", Keep: usersPath, Hidden: map[string]string{"email": user.Email},
	}
	if ok, err := r.confirm(v, c); !ok {
		return err
	}
	err = p.service.DeleteUser(r.Request().Context(), r.caller, user.Email)
	if _, fault, ok := faultOf(err); ok {
		return r.askAgain(http.StatusBadRequest, v, c, fault)
	}
	if errors.Is(err, people.ErrLastAdmin) {
		return r.askAgain(http.StatusConflict, v, c, sentence(people.ErrLastAdmin.Error()))
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
	email := r.form.Get("email")
	err := p.service.SetUserPassword(r.Request().Context(), r.caller, email, secret.New(r.form.Get("password")))
	if errors.Is(err, people.ErrCredentials) {
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
