package session

import (
	"slices"

	"github.com/logboom/logboom/pkg/project"
)

// Person is who is at the pages.
type Person struct {
	Email string
	Role  project.Role

	// Projects are the IDs of the projects that the person is limited to. An
	// admin without any may do everything; a member without any sees nothing.
	Projects []string
}

// May tells whether the person may look into the project, or with write change
// it: an admin both, a member only the former, and each only in their projects.
func (p *Person) May(found project.Project, write bool) bool {
	if found.ID == "" {
		return false
	}
	in := slices.Contains(p.Projects, found.ID)
	switch p.Role {
	case project.RoleAdmin:
		return in || len(p.Projects) == 0
	case project.RoleMember:
		return in && !write
	}
	return false
}

// MayManage tells whether the person may do what concerns no single project.
func (p *Person) MayManage() bool {
	return p.Role == project.RoleAdmin && len(p.Projects) == 0
}

// noProject is the ID of no project: an API key with an empty list is good for
// all, and a member without projects is not.
const noProject = "~"

// Key is what the person may do, as an API key's holder: pages ask the JSON API
// by the session's cookie. Its name is the person's address.
func (p *Person) Key() project.APIKey {
	projects := p.Projects
	if p.Role != project.RoleAdmin && len(projects) == 0 {
		projects = []string{noProject}
	}
	return project.APIKey{Name: p.Email, Role: p.Role, Projects: projects}
}
