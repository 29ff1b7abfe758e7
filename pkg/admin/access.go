package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/logboom/logboom/pkg/people"
	"github.com/logboom/logboom/pkg/project"
)

// ErrForbidden says that the caller's role does not allow the operation.
var ErrForbidden = errors.New("the caller's role does not allow this")

// Access is who may do an operation.
type Access uint8

// The zero value is Nobody, so that an operation without an entry in the table
// is closed.
const (
	Nobody  Access = iota
	Anyone         // without an API key or session
	Member         // a caller who may read the project; without a project, every caller
	Manager        // a caller who may change the project
	Owner          // an admin of all projects
)

// String names the access in dumps of the routes and in openapi.json.
func (a Access) String() string {
	return [...]string{"nobody", "anyone", "member", "admin", "admin of all projects"}[a]
}

// Operation is something that callers ask for. Every route of the JSON API and
// every page names one.
type Operation string

// The operations.
const (
	SignIn      Operation = "sign in"
	DescribeAPI Operation = "describe the API"

	UseAccount     Operation = "use one's own account"
	ListProjects   Operation = "list projects"
	ReadProject    Operation = "read a project"
	ReadTokens     Operation = "read tokens"
	ReadSettings   Operation = "read settings"
	ReadAlerts     Operation = "read alerts"
	ReadDeliveries Operation = "read deliveries"
	ReadUsage      Operation = "read usage"
	ReadRecords    Operation = "read records"
	SaveViews      Operation = "save views"

	DeleteProject  Operation = "delete a project"
	ChangeTokens   Operation = "change tokens"
	ChangeSettings Operation = "change settings"
	ChangeAlerts   Operation = "change alerts"

	CreateProject     Operation = "create projects"
	ManageUsers       Operation = "manage users"
	ManageKeys        Operation = "manage API keys"
	ManageDeadLetters Operation = "manage dead letters"
	ReadOperations    Operation = "read operations"
	ReadAudit         Operation = "read the audit trail"
)

// Access returns who may do the operation. This is the one table of who may do
// what.
func (o Operation) Access() Access {
	switch o {
	case SignIn, DescribeAPI:
		return Anyone
	case UseAccount, ListProjects, ReadProject, ReadTokens, ReadSettings, ReadAlerts, ReadDeliveries, ReadUsage, ReadRecords, SaveViews:
		return Member
	case DeleteProject, ChangeTokens, ChangeSettings, ChangeAlerts:
		return Manager
	case CreateProject, ManageUsers, ManageKeys, ManageDeadLetters, ReadOperations, ReadAudit:
		return Owner
	}
	return Nobody
}

// Caller is who sent a request: the holder of an API key, or a person with a
// session. The zero value may do only what anyone may.
type Caller struct {
	KeyID string // "" for a person
	Email string // "" for the holder of an API key
	Role  people.Role

	// A caller sees every project, or only those whose IDs are in Projects.
	AllProjects bool
	Projects    []string

	RequestID string
	Address   string // of the client
}

// May reports whether the caller has the access. p is the zero value for what
// concerns no single project.
func (c *Caller) May(access Access, p project.Project) bool {
	known := c.Role == people.RoleAdmin || c.Role == people.RoleMember
	sees := p.ID != "" && (c.AllProjects || slices.Contains(c.Projects, p.ID))
	switch access {
	case Anyone:
		return true
	case Member:
		return known && (sees || p.ID == "")
	case Manager:
		return c.Role == people.RoleAdmin && sees
	case Owner:
		return c.Role == people.RoleAdmin && c.AllProjects
	}
	return false
}

// KeyCaller returns the holder of the API key with the value. The error is
// people.ErrUnknownKey where there is no such key.
func (s *Service) KeyCaller(ctx context.Context, value string) (Caller, error) {
	key, err := s.deps.People.APIKey(ctx, value)
	if err != nil {
		return Caller{}, err
	}
	return Caller{KeyID: key.ID, Role: key.Role, AllProjects: len(key.Projects) == 0, Projects: key.Projects}, nil
}

// SessionCaller returns the person whose session has the token. The error is
// people.ErrNoSession where there is no such session. A member without projects
// sees none; an admin without projects sees all.
func (s *Service) SessionCaller(ctx context.Context, token string) (Caller, error) {
	person, err := s.deps.Sessions.Person(ctx, token)
	if err != nil {
		return Caller{}, err
	}
	all := person.Role == people.RoleAdmin && len(person.Projects) == 0
	return Caller{Email: person.Email, Role: person.Role, AllProjects: all, Projects: person.Projects}, nil
}

// Authorize returns the project with the name if the caller may do the
// operation in it, and the zero project if the name is "". It is the one
// function through which requests find their project. The error is
// project.ErrNotFound where the caller may not see the project, so that no
// route reveals whether it exists, and ErrForbidden where the caller's role is
// not enough.
func (s *Service) Authorize(ctx context.Context, caller Caller, operation Operation, name string) (project.Project, error) {
	var found project.Project
	if name != "" {
		var err error
		if found, err = s.deps.Projects.Project(ctx, name); err != nil {
			return project.Project{}, err
		}
		if !caller.May(Member, found) {
			return project.Project{}, fmt.Errorf("project %s: %w", found.Name, project.ErrNotFound)
		}
	}
	if !caller.May(operation.Access(), found) {
		return project.Project{}, ErrForbidden
	}
	return found, nil
}
