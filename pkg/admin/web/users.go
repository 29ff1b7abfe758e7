package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/logboom/logboom/pkg/project"
)

// userRow is one user of the list.
type userRow struct {
	project.User
	Projects []string // names of the projects that the user is limited to
	Self     bool
	Password string // where the user gets another password
	Delete   string // where the user is deleted
}

// usersView is everybody who may sign in.
type usersView struct {
	Users []userRow
	Email string // of the form, as what follows
	Role  project.Role
	Names string
	Field string
	Fault string
	Next  string
}

func (p *Pages) usersPage(r *request) error {
	return r.showUsers(http.StatusOK, usersView{Role: project.RoleMember})
}

const usersPerPage = 100

func (r *request) showUsers(status int, v usersView) error {
	ctx := r.Request().Context()
	list, err := r.pages.deps.Directory.Users(ctx, r.QueryParam("after"), usersPerPage+1)
	if err != nil {
		return err
	}
	if len(list) > usersPerPage {
		list = list[:usersPerPage]
		v.Next = list[usersPerPage-1].Email
	}
	for _, u := range list {
		ids, err := r.pages.deps.Sessions.Members().Of(ctx, u)
		if err != nil {
			return err
		}
		query := "?email=" + url.QueryEscape(u.Email)
		v.Users = append(v.Users, userRow{u, namesOf(ids), u.Email == r.person.Email, usersPath + "/password" + query, usersPath + "/delete" + query})
	}
	return r.renderStatus(status, "users", view{Title: "Users", Tab: "installation", Side: "users", Body: v})
}

// namesOf gives the names in projects' IDs, which "~" and a tail follow.
func namesOf(ids []string) []string {
	var names []string
	for _, id := range ids {
		name, _, _ := strings.Cut(id, "~")
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// idsOf finds the projects that a form names, separated by commas or spaces.
func (p *Pages) idsOf(ctx context.Context, typed string) ([]string, error) {
	var ids []string
	for _, name := range splitNames(typed) {
		found, err := p.deps.Directory.Project(ctx, name)
		if errors.Is(err, project.ErrNotFound) {
			return nil, &project.InvalidError{Field: "projects", Reason: "there is no project " + name}
		}
		if err != nil {
			return nil, err
		}
		ids = append(ids, found.ID)
	}
	return ids, nil
}

func splitNames(typed string) []string {
	return strings.FieldsFunc(typed, func(c rune) bool { return c == ',' || c == ' ' || c == '\n' || c == '\r' || c == '\t' })
}

// createUser makes a user, limited to projects before they can sign in with
// more: a member without projects sees nothing.
func (p *Pages) createUser(r *request) error {
	form, err := r.readForm()
	if err != nil {
		return err
	}
	again := usersView{Email: form.Get("email"), Role: project.Role(form.Get("role")), Names: form.Get("projects")}
	ctx, cancel := r.changing()
	defer cancel()
	user, err := p.makeUser(ctx, again, project.NewSecret(form.Get("password")))
	if errors.Is(err, project.ErrNameTaken) {
		again.Field, again.Fault = "email", "Somebody has this address already."
		return r.showUsers(http.StatusConflict, again)
	}
	if field, fault, ok := faultOf(err); ok {
		again.Field, again.Fault = field, fault
		return r.showUsers(http.StatusBadRequest, again)
	}
	if err != nil {
		return err
	}
	r.changed(ctx, "user.created", user.Email)
	return r.goTo(usersPath + "?done=user-created")
}

// makeUser makes the user as a member first: only when the projects are there
// does the role count.
func (p *Pages) makeUser(ctx context.Context, wanted usersView, password project.Secret) (project.User, error) {
	if err := checkRole(wanted.Role); err != nil {
		return project.User{}, err
	}
	ids, err := p.idsOf(ctx, wanted.Names)
	if err != nil {
		return project.User{}, err
	}
	user, err := p.deps.Directory.CreateUser(ctx, wanted.Email, password, project.RoleMember)
	if err != nil {
		return project.User{}, err
	}
	if err := p.deps.Sessions.Members().Limit(ctx, user, ids); err != nil {
		return project.User{}, err
	}
	if wanted.Role == project.RoleMember {
		return user, nil
	}
	return p.deps.Directory.ChangeRole(ctx, user.Email, wanted.Role)
}

// checkRole refuses an unknown role before anything is changed.
func checkRole(role project.Role) error {
	if role != project.RoleAdmin && role != project.RoleMember {
		return &project.InvalidError{Field: "role", Reason: "must be admin or member"}
	}
	return nil
}

// changeUser gives a user another role and other projects: in the order in
// which they never have more than before and after.
func (p *Pages) changeUser(r *request) error {
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
	ids, err := p.idsOf(ctx, form.Get("projects"))
	if err == nil && user.Email == r.person.Email {
		err = &project.InvalidError{Field: "email", Reason: "your own role and projects are changed by another administrator"}
	}
	if err == nil {
		err = p.giveRole(ctx, user, project.Role(form.Get("role")), ids)
	}
	if errors.Is(err, project.ErrLastAdmin) {
		err = &project.InvalidError{Field: "email", Reason: project.ErrLastAdmin.Error()}
	}
	if _, fault, ok := faultOf(err); ok {
		return r.showUsers(http.StatusBadRequest, usersView{Role: project.RoleMember, Field: "row", Fault: user.Email + ": " + fault})
	}
	if err != nil {
		return err
	}
	r.changed(ctx, "user.changed", user.Email)
	return r.goTo(usersPath + "?done=user-changed")
}

func (p *Pages) giveRole(ctx context.Context, user project.User, role project.Role, ids []string) error {
	if err := checkRole(role); err != nil {
		return err
	}
	if role == project.RoleMember && user.Role == project.RoleAdmin {
		if _, err := p.deps.Directory.ChangeRole(ctx, user.Email, role); err != nil {
			return err
		}
	}
	if err := p.deps.Sessions.Members().Limit(ctx, user, ids); err != nil {
		return err
	}
	if role == user.Role || role == project.RoleMember {
		return nil
	}
	_, err := p.deps.Directory.ChangeRole(ctx, user.Email, role)
	return err
}

func (p *Pages) deleteUserPage(r *request) error {
	user, err := p.deps.Directory.User(r.Request().Context(), r.QueryParam("email"))
	if err != nil {
		return err
	}
	return r.askToDeleteUser(http.StatusOK, user, "")
}

func (r *request) askToDeleteUser(status int, user project.User, fault string) error {
	return r.renderStatus(status, "confirm", view{Title: "Delete a user", Tab: "installation", Side: "users", Body: confirmation{
		Title: "Delete " + user.Email + "?",
		Texts: []string{"They are signed out everywhere at once. API keys and tokens that they made go on working."},
		Name:  user.Email, Action: "Delete user", Keep: usersPath, Fault: fault, Hidden: map[string]string{"email": user.Email},
	}})
}

func (p *Pages) deleteUser(r *request) error {
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
	if !isConfirmed(form.Get("confirm"), user.Email) {
		return r.askToDeleteUser(http.StatusBadRequest, user, notTyped(user.Email))
	}
	if user.Email == r.person.Email {
		return r.askToDeleteUser(http.StatusBadRequest, user, "You cannot delete yourself: ask another administrator.")
	}
	err = p.deps.Directory.DeleteUser(ctx, user.Email)
	if errors.Is(err, project.ErrLastAdmin) {
		return r.askToDeleteUser(http.StatusConflict, user, sentence(project.ErrLastAdmin.Error()))
	}
	if err != nil {
		return err
	}
	r.changed(ctx, "user.deleted", user.Email)
	if err := p.deps.Sessions.Members().Forget(ctx, user.Email); err != nil {
		p.deps.Logger.Warn("membership of a deleted user kept; it says nothing to a later one", "err", err)
	}
	return r.goTo(usersPath + "?done=user-deleted")
}
