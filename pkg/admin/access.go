package admin

import (
	"errors"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/project"
)

var errMissingKey = errors.New("no Authorization: Bearer API key in the request")

// authenticate lets only requests with a good API key pass.
func (s *Server) authenticate(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		scheme, key, found := strings.Cut(strings.TrimSpace(c.Request().Header.Get(echo.HeaderAuthorization)), " ")
		if !found || !strings.EqualFold(scheme, "bearer") {
			return errMissingKey
		}
		if _, err := s.deps.Directory.APIKey(c.Request().Context(), strings.TrimSpace(key)); err != nil {
			return err
		}
		return next(c)
	}
}

// authorize is the project that the request may look into: the one function
// through which every route finds its project.
func (s *Server) authorize(c echo.Context) (project.Project, error) {
	return s.deps.Directory.Project(c.Request().Context(), c.Param("project"))
}
