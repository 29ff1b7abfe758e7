package admin

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/logboom/logboom/pkg/project"
)

// nameBody is the body of what is made by its name.
type nameBody struct {
	Name string `json:"name"`
}

// projectPage is one page of projects, by name.
type projectPage struct {
	Projects []project.Project `json:"projects"`
	Next     string            `json:"next"` // cursor of the next page, "" when this is the last
}

// changeTimeout bounds a change of the record.
const changeTimeout = 15 * time.Second

// changing is the context of a change. It outlives the connection: who hangs up
// shall not leave half of a change, nor one that the audit did not see.
func (r *request) changing() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.Request().Context()), changeTimeout)
}

func readName(r *request) (string, error) {
	var wanted nameBody
	sent, err := readBody[nameBody](r, "name")
	if err != nil {
		return "", err
	}
	err = sent.into(&wanted)
	return wanted.Name, err
}

func (s *Server) createProject(r *request) error {
	name, err := readName(r)
	if err != nil {
		return err
	}
	ctx, cancel := r.changing()
	defer cancel()
	made, err := s.deps.Directory.CreateProject(ctx, name)
	if err != nil {
		return err
	}
	s.changed(r, ProjectCreated, made, "")
	r.Response().Header().Set("Location", apiRoot+"/projects/"+url.PathEscape(made.Name))
	return r.JSON(http.StatusCreated, made)
}

// listProjects answers the projects that the key may see. The cursor is the
// last name of the page before.
func (s *Server) listProjects(r *request) error {
	limit, err := readLimit(r)
	if err != nil {
		return err
	}
	after := r.QueryParam("cursor")
	if after != "" && project.CheckName(after) != nil {
		return &fieldError{"cursor", "not one that was given out"}
	}
	list, err := s.seen(r.Request().Context(), r.key, after, limit+1)
	if err != nil {
		return err
	}
	page := projectPage{Projects: list}
	if len(list) > limit { // one more than asked for tells that another page follows
		page.Projects = list[:limit]
		page.Next = list[limit-1].Name
	}
	return r.JSON(http.StatusOK, page)
}

// seen gives up to limit of the projects after a name that the key may see.
func (s *Server) seen(ctx context.Context, key project.APIKey, after string, limit int) ([]project.Project, error) {
	if len(key.Projects) > 0 {
		return s.limitedTo(ctx, key, after, limit)
	}
	seen := []project.Project{}
	for len(seen) < limit {
		page, err := s.deps.Directory.Projects(ctx, after, limit-len(seen))
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			break
		}
		seen = append(seen, page...) // may be fewer than asked for: the store has a bound of its own
		after = page[len(page)-1].Name
	}
	return seen, nil
}

// limitedTo is seen for a key that names its projects, which are few.
func (s *Server) limitedTo(ctx context.Context, key project.APIKey, after string, limit int) ([]project.Project, error) {
	seen := []project.Project{}
	for _, id := range key.Projects {
		found, err := s.deps.Directory.Project(ctx, nameIn(id))
		if errors.Is(err, project.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if key.May(found, false) && found.Name > after {
			seen = append(seen, found)
		}
	}
	slices.SortFunc(seen, func(a, b project.Project) int { return strings.Compare(a.Name, b.Name) })
	return seen[:min(limit, len(seen))], nil
}

// nameIn is the name in a project's ID, which is followed by "~" and a tail.
func nameIn(projectID string) string {
	name, _, _ := strings.Cut(projectID, "~")
	return name
}

// oneProject answers the project that authorize found.
func (s *Server) oneProject(r *request) error { return r.JSON(http.StatusOK, r.project) }

// deleteProject removes the project and its tokens at once, its rows in the
// background.
func (s *Server) deleteProject(r *request) error {
	ctx, cancel := r.changing()
	defer cancel()
	gone, err := s.remove(ctx, r.project)
	if gone.ID != "" {
		s.changed(r, ProjectDeleted, gone, "")
	}
	if err != nil {
		return err
	}
	return r.NoContent(http.StatusNoContent)
}

// remove deletes the project and has its rows erased. What it gives is what was
// deleted, also with an error.
func (s *Server) remove(ctx context.Context, found project.Project) (project.Project, error) {
	if err := s.bury(ctx, found.ID); err != nil {
		return project.Project{}, err
	}
	gone, err := s.deps.Directory.DeleteProject(ctx, found.Name)
	if err != nil {
		return project.Project{}, err
	}
	if gone.ID != found.ID { // made anew between the two steps
		err = s.bury(ctx, gone.ID)
	}
	if err == nil {
		s.cleanup.wakeUp()
	}
	return gone, err
}

// bury remembers that the project's rows are to be erased.
func (s *Server) bury(ctx context.Context, projectID string) error {
	if s.deps.Graves == nil {
		return nil
	}
	return s.deps.Graves.Bury(ctx, projectID)
}
