package admin

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/secret"
	"github.com/logboom/logboom/pkg/token"
)

// Projects returns up to limit of the projects that the caller may see, by
// name, whose names contain the filter and sort after the name given.
func (s *Service) Projects(ctx context.Context, caller Caller, filter, after string, limit int) ([]project.Project, error) {
	found := []project.Project{}
	if !caller.AllProjects {
		for _, id := range caller.Projects { // at most 100
			one, err := s.deps.Projects.Project(ctx, projectName(id))
			if errors.Is(err, project.ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if caller.May(Member, one) && one.Name > after && strings.Contains(one.Name, filter) {
				found = append(found, one)
			}
		}
		slices.SortFunc(found, func(a, b project.Project) int { return strings.Compare(a.Name, b.Name) })
		return found[:min(limit, len(found))], nil
	}
	for len(found) < limit {
		page, err := s.deps.Projects.Projects(ctx, after, 0)
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			break
		}
		after = page[len(page)-1].Name
		for _, one := range page {
			if strings.Contains(one.Name, filter) {
				found = append(found, one)
			}
		}
	}
	return found[:min(limit, len(found))], nil
}

// projectName returns the name in a project's ID, which "~" and a random tail
// follow.
func projectName(id string) string {
	name, _, _ := strings.Cut(id, "~")
	return name
}

// CreateProject creates a project with the default settings. The errors are
// project.ErrNameTaken and a project.InvalidError for the name.
func (s *Service) CreateProject(ctx context.Context, caller Caller, name string) (project.Project, error) {
	ctx, cancel := s.changing(ctx)
	defer cancel()
	created, err := s.deps.Projects.CreateProject(ctx, name)
	if err != nil {
		return project.Project{}, err
	}
	s.record(ctx, caller, ProjectCreated, created, "")
	return created, nil
}

// DeleteProject deletes the project with its tokens, settings and alerts, and
// has its rows erased in the background.
func (s *Service) DeleteProject(ctx context.Context, caller Caller, found project.Project) error {
	ctx, cancel := s.changing(ctx)
	defer cancel()
	if err := s.deps.Deletions.Add(ctx, found.ID); err != nil {
		return err
	}
	deleted, err := s.deps.Projects.DeleteProject(ctx, found.Name)
	if err != nil {
		return err
	}
	_ = s.deps.Tokens.DeleteTokens(ctx, deleted.ID) // they are refused already; if it fails, the hourly sweep deletes them
	s.record(ctx, caller, ProjectDeleted, deleted, "")
	if deleted.ID != found.ID { // deleted and created again between the two steps
		if err := s.deps.Deletions.Add(ctx, deleted.ID); err != nil {
			return err
		}
	}
	s.cleanup.wakeUp()
	return nil
}

// ChangeSettings applies the change to the project's settings as they are now.
// The change may be called more than once. Quotas that the change introduces
// count what the project has already sent.
func (s *Service) ChangeSettings(ctx context.Context, caller Caller, found project.Project, change func(*project.Settings)) (project.Settings, error) {
	ctx, cancel := s.changing(ctx)
	defer cancel()
	changed, err := s.deps.Projects.ChangeSettings(ctx, found.Name, change)
	if err != nil {
		return project.Settings{}, err
	}
	s.counters.settingsChanged(ctx, changed)
	s.record(ctx, caller, SettingsChanged, changed, "")
	return changed.Settings, nil
}

// Defaults returns the quotas of projects that set none.
func (s *Service) Defaults() project.Quotas { return s.deps.Defaults }

// ErrNoToken says that the project has no token with the ID.
var ErrNoToken = errors.New("the project has no such token")

// Tokens lists the project's tokens, the oldest first.
func (s *Service) Tokens(ctx context.Context, found project.Project) ([]token.Token, error) {
	return s.deps.Tokens.Tokens(ctx, found.Name)
}

// CreateToken creates a token with the label. The secret is its value, which
// cannot be read again.
func (s *Service) CreateToken(ctx context.Context, caller Caller, found project.Project, label string) (token.Token, secret.Value, error) {
	ctx, cancel := s.changing(ctx)
	defer cancel()
	created, value, err := s.deps.Tokens.CreateToken(ctx, found.Name, label)
	if err != nil {
		return token.Token{}, secret.Value{}, err
	}
	s.record(ctx, caller, TokenCreated, found, created.ID)
	return created, value, nil
}

// DeleteToken revokes the token with the ID: ingest refuses it within 2 s. The
// error is ErrNoToken where the project has no such token.
func (s *Service) DeleteToken(ctx context.Context, caller Caller, found project.Project, id string) error {
	ctx, cancel := s.changing(ctx)
	defer cancel()
	err := s.deps.Tokens.DeleteToken(ctx, found.Name, id)
	if errors.Is(err, project.ErrNotFound) || errors.Is(err, token.ErrMalformed) {
		return ErrNoToken
	}
	if err != nil {
		return err
	}
	s.record(ctx, caller, TokenDeleted, found, id)
	return nil
}
