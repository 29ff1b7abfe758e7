package project

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/kv"
	"github.com/logboom/logboom/pkg/secret"
)

// Config says how the buckets are created and what projects begin with.
type Config struct {
	// Replicas of the buckets: 1 to 5. They count when a bucket is created;
	// later, nats stream edit changes them. Default 1.
	Replicas int

	// Defaults are the quotas of projects whose settings name none. They are
	// not stored: a process that starts with others uses those. The zero value
	// limits nothing.
	Defaults Quotas

	// Key encrypts the addresses of webhooks: 32 bytes in base64. Without it no
	// alerts can be set. See LoadOrCreateKey.
	Key secret.Value

	// OldKeys decrypt what was encrypted before Key was changed. They are needed
	// until every process has the new key and ResealAlerts has succeeded.
	OldKeys []secret.Value
}

// Validate fills in defaults and names the first field that is out of range.
func (c *Config) Validate() error {
	c.Replicas = max(c.Replicas, 1)
	if c.Replicas > 5 {
		return &InvalidError{"Replicas", "must be 1 to 5"}
	}
	return c.Defaults.check("Defaults.")
}

const defaultRetentionDays = 30

// The bounds of the buckets, and how many revisions of a key are kept: a few of
// a project, for operators, and one of an alert, so that no old address stays.
const (
	projectsBytes   = 64 << 20 // a token takes 520 bytes (measured)
	projectsHistory = 5
	alertsBytes     = 16 << 20
)

// Store reads and changes projects and their alerts. All methods may be called
// at once, in any number of processes. Their errors wrap ErrUnavailable where
// the bucket does not answer.
type Store struct {
	projects *kv.Bucket
	alerts   *kv.Bucket
	keys     *keyring
	defaults Quotas
}

// Open opens the buckets and creates those that are missing. Any number of
// processes may do so at once.
func Open(ctx context.Context, js jetstream.JetStream, config Config) (*Store, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	keys, err := newKeyring(config.Key, config.OldKeys)
	if err != nil {
		return nil, err
	}
	s := &Store{keys: keys, defaults: config.Defaults}
	s.projects, err = kv.Open(ctx, js, kv.Config{Name: "PROJECTS", History: projectsHistory, MaxBytes: projectsBytes, Replicas: config.Replicas})
	if err != nil {
		return nil, err
	}
	s.alerts, err = kv.Open(ctx, js, kv.Config{Name: "ALERTS", History: 1, MaxBytes: alertsBytes, Replicas: config.Replicas})
	return s, err
}

// Bucket returns the bucket PROJECTS. Package token stores tokens in it too, so
// that one watch shows the changes of tokens and projects in order.
func (s *Store) Bucket() *kv.Bucket { return s.projects }

// Defaults returns the quotas of projects whose settings name none.
func (s *Store) Defaults() Quotas { return s.defaults }

// CreateProject creates a project with the default settings. ErrNameTaken means
// that there is one with the name; of several callers at once one succeeds.
func (s *Store) CreateProject(ctx context.Context, name string) (Project, error) {
	if err := CheckName(name); err != nil {
		return Project{}, err
	}
	now := time.Now().UTC()
	p := Project{ID: newID(name), Name: name, Created: now, Changed: now, Settings: Settings{RetentionDays: defaultRetentionDays}}
	p.Settings.fill()
	_, err := s.projects.Create(ctx, nameKey(name), p)
	if errors.Is(err, kv.ErrExists) {
		return Project{}, fmt.Errorf("project %s: %w", name, ErrNameTaken)
	}
	if err != nil {
		return Project{}, err
	}
	return p, nil
}

// Project returns the project with the name, or ErrNotFound.
func (s *Store) Project(ctx context.Context, name string) (Project, error) {
	p, _, err := s.load(ctx, name)
	return p, err
}

func (s *Store) load(ctx context.Context, name string) (p Project, revision uint64, err error) {
	if CheckName(name) != nil {
		return p, 0, fmt.Errorf("project: %w", ErrNotFound) // such a name may not be a valid key either
	}
	revision, err = s.projects.Load(ctx, nameKey(name), &p)
	if errors.Is(err, ErrNotFound) {
		return p, 0, fmt.Errorf("project %s: %w", name, ErrNotFound)
	}
	p.Settings.fill()
	return p, revision, err
}

// Exists reports whether there is a project with the ID.
func (s *Store) Exists(ctx context.Context, projectID string) (bool, error) {
	end := max(strings.LastIndexByte(projectID, '~'), 0)
	p, err := s.Project(ctx, projectID[:end])
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil && p.ID == projectID, err
}

// maxPage bounds one answer of Projects.
const maxPage = 1000

// Projects lists the projects whose names sort after the one given, by name, at
// most limit of them (1 to 1000; 0 means 1000). The next page begins after the
// last name of a full page.
func (s *Store) Projects(ctx context.Context, after string, limit int) ([]Project, error) {
	if limit <= 0 || limit > maxPage {
		limit = maxPage
	}
	entries, err := s.projects.List(ctx, projectKeys+"*")
	if err != nil {
		return nil, err
	}
	var list []Project
	for _, entry := range entries {
		if name, _ := NameInKey(entry.Key); name <= after {
			continue
		}
		var p Project
		if err := entry.Decode(&p); err != nil {
			return nil, err
		}
		p.Settings.fill()
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b Project) int { return strings.Compare(a.Name, b.Name) })
	return list[:min(limit, len(list))], nil
}

// ChangeSettings applies change to the project's settings. It calls change
// again if another caller changes the project at the same time.
func (s *Store) ChangeSettings(ctx context.Context, name string, change func(*Settings)) (Project, error) {
	var p Project
	err := kv.Retry("project "+name, func() error {
		var revision uint64
		var err error
		if p, revision, err = s.load(ctx, name); err != nil {
			return err
		}
		change(&p.Settings)
		p.Changed = time.Now().UTC()
		if err := p.Settings.Validate(); err != nil {
			return err
		}
		_, err = s.projects.Update(ctx, nameKey(name), p, revision)
		return err
	})
	if err != nil {
		return Project{}, err
	}
	return p, nil
}

// DeleteProject deletes the project and its alerts and returns what it deleted.
// Its tokens are refused at once, since a token counts only while its project
// exists; token.Store.DeleteProject removes them from the bucket.
func (s *Store) DeleteProject(ctx context.Context, name string) (Project, error) {
	var p Project
	err := kv.Retry("project "+name, func() error {
		var revision uint64
		var err error
		if p, revision, err = s.load(ctx, name); err != nil {
			return err
		}
		return s.projects.Delete(ctx, nameKey(name), revision)
	})
	if err != nil {
		return Project{}, err
	}
	_ = s.clearAlerts(ctx, p.ID) // if it fails, SweepAlerts deletes them
	return p, nil
}

// Survivors returns a function that reports whether a project with an ID
// exists. It reads all projects once and asks for one of its own only where an
// ID is not among them, so that a sweep over many keys costs little.
func (s *Store) Survivors(ctx context.Context) (func(projectID string) (bool, error), error) {
	entries, err := s.projects.List(ctx, projectKeys+"*")
	if err != nil {
		return nil, err
	}
	ids := map[string]bool{}
	for _, entry := range entries {
		var p Project
		if err := entry.Decode(&p); err != nil {
			return nil, err
		}
		ids[p.ID] = true
	}
	return func(projectID string) (bool, error) {
		if ids[projectID] {
			return true, nil
		}
		return s.Exists(ctx, projectID)
	}, nil
}
