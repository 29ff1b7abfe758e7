package admin

import (
	"context"
	"errors"
	"slices"

	"github.com/logboom/logboom/pkg/people"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/secret"
)

// User is a user with the names of the projects that they are limited to. An
// admin without any sees all projects; a member without any sees none.
type User struct {
	people.User
	Projects []string
}

// Users returns up to limit of the users whose addresses sort after the one
// given, and the address after which the next page begins, "" on the last page.
func (s *Service) Users(ctx context.Context, after string, limit int) (users []User, next string, err error) {
	list, err := s.deps.People.Users(ctx, after, limit+1)
	if err != nil {
		return nil, "", err
	}
	if len(list) > limit {
		list = list[:limit]
		next = list[limit-1].Email
	}
	for _, one := range list {
		ids, err := s.deps.Sessions.Projects(ctx, one)
		if err != nil {
			return nil, "", err
		}
		users = append(users, User{one, projectNamesOf(ids)})
	}
	return users, next, nil
}

func projectNamesOf(ids []string) []string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = projectName(id)
	}
	slices.Sort(names)
	return names
}

// User returns the user with the address.
func (s *Service) User(ctx context.Context, email string) (people.User, error) {
	return s.deps.People.User(ctx, email)
}

// projectIDs returns the IDs of the projects with the names.
func (s *Service) projectIDs(ctx context.Context, names []string) ([]string, error) {
	var ids []string
	for _, name := range names {
		found, err := s.deps.Projects.Project(ctx, name)
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

// CreateUser creates a user with a role and limits them to the projects with
// the names. The user is a member until the limit is stored, so that they can
// never do more than they should.
func (s *Service) CreateUser(ctx context.Context, caller Caller, email string, password secret.Value, role people.Role, projects []string) error {
	ctx, cancel := s.changing(ctx)
	defer cancel()
	if err := validateRole(role); err != nil {
		return err
	}
	ids, err := s.projectIDs(ctx, projects)
	if err != nil {
		return err
	}
	user, err := s.deps.People.CreateUser(ctx, email, password, people.RoleMember)
	if err != nil {
		return err
	}
	if err := s.setRole(ctx, user, role, ids); err != nil {
		return err
	}
	s.record(ctx, caller, UserCreated, project.Project{}, user.Email)
	return nil
}

func validateRole(role people.Role) error {
	if role != people.RoleAdmin && role != people.RoleMember {
		return &project.InvalidError{Field: "role", Reason: "must be admin or member"}
	}
	return nil
}

// setRole changes the role and projects of a user in the order in which they
// never have more rights than before and after.
func (s *Service) setRole(ctx context.Context, user people.User, role people.Role, ids []string) error {
	if role == people.RoleMember && user.Role == people.RoleAdmin {
		if _, err := s.deps.People.ChangeRole(ctx, user.Email, role); err != nil {
			return err
		}
	}
	if err := s.deps.Sessions.Limit(ctx, user, ids); err != nil {
		return err
	}
	if role == user.Role || role == people.RoleMember {
		return nil
	}
	_, err := s.deps.People.ChangeRole(ctx, user.Email, role)
	return err
}

// otherUser returns the user with the address. If that is the caller, the error
// is a project.InvalidError with the reason.
func (s *Service) otherUser(ctx context.Context, caller Caller, email, reason string) (people.User, error) {
	user, err := s.deps.People.User(ctx, email)
	if err == nil && user.Email == caller.Email {
		err = &project.InvalidError{Field: "email", Reason: reason}
	}
	return user, err
}

// ChangeUser changes the role of another user and the projects that they are
// limited to. The error is people.ErrLastAdmin where no admin would be left.
func (s *Service) ChangeUser(ctx context.Context, caller Caller, email string, role people.Role, projects []string) error {
	ctx, cancel := s.changing(ctx)
	defer cancel()
	user, err := s.otherUser(ctx, caller, email, "another administrator must change your role and projects")
	if err != nil {
		return err
	}
	if err := validateRole(role); err != nil {
		return err
	}
	ids, err := s.projectIDs(ctx, projects)
	if err != nil {
		return err
	}
	if err := s.setRole(ctx, user, role, ids); err != nil {
		return err
	}
	s.record(ctx, caller, UserChanged, project.Project{}, user.Email)
	return nil
}

// SetUserPassword sets another user's password, which ends their sessions. The
// error is people.ErrCredentials where the password was changed meanwhile.
func (s *Service) SetUserPassword(ctx context.Context, caller Caller, email string, password secret.Value) error {
	ctx, cancel := s.changing(ctx)
	defer cancel()
	user, err := s.otherUser(ctx, caller, email, "change your own password on the account page")
	if err != nil {
		return err
	}
	if _, err := s.deps.People.SetPassword(ctx, user.Email, password); err != nil {
		return err
	}
	s.record(ctx, caller, UserPasswordSet, project.Project{}, user.Email)
	return nil
}

// DeleteUser deletes another user and ends their sessions. The error is
// people.ErrLastAdmin where no admin would be left.
func (s *Service) DeleteUser(ctx context.Context, caller Caller, email string) error {
	ctx, cancel := s.changing(ctx)
	defer cancel()
	user, err := s.otherUser(ctx, caller, email, "you cannot delete yourself: ask another administrator")
	if err != nil {
		return err
	}
	if err := s.deps.People.DeleteUser(ctx, user.Email); err != nil {
		return err
	}
	s.record(ctx, caller, UserDeleted, project.Project{}, user.Email)
	if err := s.deps.Sessions.DeleteMembership(ctx, user.Email); err != nil {
		s.deps.Logger.Warn("projects of a deleted user not deleted; a later user of the address does not get them", "err", err)
	}
	return nil
}

// Key is an API key with the names of the projects that it is limited to;
// without any it is good for all.
type Key struct {
	people.APIKey
	Projects []string
}

// ErrNoKey says that there is no API key with the ID.
var ErrNoKey = errors.New("there is no such API key")

// Keys lists the API keys, the oldest first.
func (s *Service) Keys(ctx context.Context) ([]Key, error) {
	list, err := s.deps.People.APIKeys(ctx)
	keys := make([]Key, len(list))
	for i, one := range list {
		keys[i] = Key{one, projectNamesOf(one.Projects)}
	}
	return keys, err
}

// CreateKey creates an API key that is limited to the projects with the names.
// The secret is its value, which cannot be read again.
func (s *Service) CreateKey(ctx context.Context, caller Caller, name string, role people.Role, projects []string) (people.APIKey, secret.Value, error) {
	ctx, cancel := s.changing(ctx)
	defer cancel()
	created, value, err := s.deps.People.CreateAPIKey(ctx, name, role, projects...)
	if err != nil {
		return people.APIKey{}, secret.Value{}, err
	}
	s.record(ctx, caller, KeyCreated, project.Project{}, created.ID)
	return created, value, nil
}

// DeleteKey deletes the API key with the ID, which is refused from then on. The
// error is ErrNoKey where there is none.
func (s *Service) DeleteKey(ctx context.Context, caller Caller, id string) error {
	ctx, cancel := s.changing(ctx)
	defer cancel()
	err := s.deps.People.DeleteAPIKey(ctx, id)
	if errors.Is(err, project.ErrNotFound) {
		return ErrNoKey
	}
	if err != nil {
		return err
	}
	s.record(ctx, caller, KeyDeleted, project.Project{}, id)
	return nil
}
