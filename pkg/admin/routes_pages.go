package admin

import (
	"context"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/admin/web"
	"github.com/logboom/logboom/pkg/project"
)

// mount adds the pages for people. It comes before the first request.
func (s *Server) mount(pages *web.Pages, trail Trail) {
	s.pages, s.trail = pages, trail
	pages.Mount(s.echo)
}

// identify lets requests with a good API key pass, and without a key those of a
// person who is signed in: pages ask the JSON API too.
func (s *Server) identify(next echo.HandlerFunc) echo.HandlerFunc {
	byKey := s.authenticate(next)
	return func(c echo.Context) error {
		if s.pages == nil || c.Request().Header.Get(echo.HeaderAuthorization) != "" {
			return byKey(c)
		}
		person, err := s.pages.Person(c.Request())
		if err != nil {
			return byKey(c) // which says that a key is missing
		}
		c.Set(keyOfRequest, person.Key())
		return next(c)
	}
}

// pageService is the server as the pages see it.
type pageService struct {
	*Server
}

// DeleteProject implements web.Service.
func (s pageService) DeleteProject(ctx context.Context, found project.Project) error {
	_, err := s.remove(ctx, found)
	return err
}

// SettingsChanged implements web.Service.
func (s pageService) SettingsChanged(ctx context.Context, changed project.Project) {
	s.restoration.changed(ctx, changed)
}

// Changed implements web.Service.
func (s pageService) Changed(ctx context.Context, c web.Change) {
	s.deps.Audit.Changed(ctx, Change{
		Time: c.Time, Action: Action(c.Action), Person: c.By, Project: c.Project, ProjectID: c.ProjectID,
		Target: c.Target, RequestID: c.RequestID, Address: c.Address,
	})
}

// Changes implements web.Service.
func (s pageService) Changes(ctx context.Context, before uint64, limit int) ([]web.Change, uint64, error) {
	list, next, err := s.trail.Changes(ctx, before, limit)
	shown := make([]web.Change, len(list))
	for i, c := range list {
		by := c.Person
		if by == "" {
			by = "API key " + c.KeyID
		}
		shown[i] = web.Change{
			Time: c.Time, Action: string(c.Action), By: by, Project: c.Project, ProjectID: c.ProjectID,
			Target: c.Target, RequestID: c.RequestID, Address: c.Address,
		}
	}
	return shown, next, err
}
