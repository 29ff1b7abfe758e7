package admin

import (
	"errors"
	"fmt"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/project"
)

var (
	errMissingKey = errors.New("no Authorization: Bearer API key in the request")
	errForbidden  = errors.New("the API key's role does not allow this")
)

// access is who may use a route. The zero value is nobody, so that a route
// that names no role is closed.
type access uint8

const (
	nobody  access = iota
	anyone         // without a key
	member         // a key that may read from the project; without one, any key
	manager        // a key that may change the project
	owner          // a key that may do what concerns no single project
)

// String names the access in the route table and in openapi.json.
func (a access) String() string {
	switch a {
	case anyone:
		return "anyone"
	case member:
		return "member"
	case manager:
		return "admin"
	case owner:
		return "admin of all projects"
	}
	return "nobody"
}

// allows is the one place that joins keys to routes. The project is zero on
// routes without one. What a key may do is project.APIKey's affair.
func (a access) allows(key project.APIKey, p project.Project) bool {
	switch a {
	case anyone:
		return true
	case member:
		return key.May(p, false) || p.ID == "" && (key.Role == project.RoleAdmin || key.Role == project.RoleMember)
	case manager:
		return key.May(p, true)
	case owner:
		return key.MayManage()
	}
	return false
}

// request is a request whose key was accepted.
type request struct {
	echo.Context
	key     project.APIKey
	project project.Project // of routes with :project, else zero
}

const keyOfRequest = "api key" // in the echo context

// authenticate lets only requests with a good API key pass.
func (s *Server) authenticate(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		scheme, value, found := strings.Cut(strings.TrimSpace(c.Request().Header.Get(echo.HeaderAuthorization)), " ")
		if !found || !strings.EqualFold(scheme, "bearer") {
			return errMissingKey
		}
		key, err := s.deps.Directory.APIKey(c.Request().Context(), strings.TrimSpace(value))
		if err != nil {
			return err
		}
		c.Set(keyOfRequest, key)
		return next(c)
	}
}

// guarded is a route's handler behind its project and its role, in that order:
// whoever may not see a project cannot tell by any route that it is there.
func (s *Server) guarded(r route) echo.HandlerFunc {
	return func(c echo.Context) error {
		key, _ := c.Get(keyOfRequest).(project.APIKey) // none: no route allows the zero key
		in := &request{Context: c, key: key}
		if strings.Contains(r.path, ":project") {
			found, err := s.authorize(c, key)
			if err != nil {
				return err
			}
			in.project = found
		}
		if !r.access.allows(key, in.project) {
			return errForbidden
		}
		return r.handle(in)
	}
}

// authorize is the project that the key may look into: the one function through
// which every route finds its project. A project of others is not found.
func (s *Server) authorize(c echo.Context, key project.APIKey) (project.Project, error) {
	found, err := s.deps.Directory.Project(c.Request().Context(), c.Param("project"))
	if err != nil {
		return project.Project{}, err
	}
	if !key.May(found, false) {
		return project.Project{}, fmt.Errorf("project %s: %w", found.Name, project.ErrNotFound)
	}
	return found, nil
}
