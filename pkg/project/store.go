package project

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// StoreConfig says how the buckets are made and what new projects begin with.
type StoreConfig struct {
	// Replicas of the buckets: 1, or 3 in a cluster. It counts when a bucket is
	// made; later, nats stream edit changes it. Default 1.
	Replicas int

	// RetentionDays of new projects, 1 to 3650. Default 30.
	RetentionDays uint16

	// Defaults are the quotas of projects whose settings name none. They are
	// not kept in the record: a process that starts with others goes by those.
	// The zero value limits nothing.
	Defaults Quotas

	// Key seals what the record must not show, the addresses of webhooks: 32
	// bytes in base64. Without one no alerts can be set. See LoadOrCreateKey.
	Key Secret

	// OldKeys open what was sealed before Key was changed. They are needed until
	// every process has the new one and ResealAlerts has run.
	OldKeys []Secret

	// MaxBytes bounds each of the two large buckets; a token takes 520 bytes
	// (measured). Two small ones get a quarter of it each. Default 64 MiB.
	MaxBytes int64
}

// Validate fills in defaults and names the first field that is out of range.
func (c *StoreConfig) Validate() error {
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	if c.RetentionDays == 0 {
		c.RetentionDays = 30
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = 64 << 20
	}
	if c.Replicas < 1 || c.Replicas > 5 {
		return &InvalidError{"Replicas", "must be 1 to 5"}
	}
	if c.MaxBytes < 1<<20 {
		return &InvalidError{"MaxBytes", "must be 1 MiB or more"}
	}
	if err := c.Defaults.check("Defaults."); err != nil {
		return err
	}
	if _, err := newKeyring(c.Key, c.OldKeys); err != nil {
		return err
	}
	return (&Settings{RetentionDays: c.RetentionDays}).Validate()
}

// Store is the system of record. It holds no state of its own beyond the
// buckets and may be used from many goroutines and processes at once.
//
// Bucket PROJECTS has the keys project.<name> and token.<id>, in one bucket so
// that one watch sees their changes in one order, and own.<project ID>.<id>,
// which lists a project's tokens (tokenlist.go). Bucket USERS has user.<id>,
// key.<id>, first-admin and bootstrap, and bucket ALERTS alerts.<project ID>:
// ingest need not be allowed to read either. Bucket USES has used.<project ID>,
// which nobody would miss.
type Store struct {
	projects  *bucket
	users     *bucket
	alerts    *bucket
	uses      *bucket
	passwords *passwords
	keys      *keyring
	settings  Settings // of new projects
	defaults  Quotas

	maxTokens, maxKeys int // of a project, and of all; less in tests
}

// The most that one project has of tokens, and the installation of API keys.
const (
	maxTokens  = 1000
	maxAPIKeys = 1000
)

// How many revisions of a key are kept: some of what an operator may want to
// look up, and none of an old password's hash.
const (
	projectHistory = 5
	userHistory    = 1
	sideHistory    = 1 // and none of an old address
	sideShare      = 4 // the small buckets' part of MaxBytes
)

// Open makes the buckets where they are missing and checks them where they are
// there; any number of processes may do so at once.
func Open(ctx context.Context, js jetstream.JetStream, config StoreConfig) (*Store, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	keys, err := newKeyring(config.Key, config.OldKeys)
	if err != nil {
		return nil, err
	}
	settings := Settings{RetentionDays: config.RetentionDays}
	settings.fill()
	s := &Store{
		passwords: newPasswords(),
		keys:      keys,
		settings:  settings,
		defaults:  config.Defaults,
		maxTokens: maxTokens,
		maxKeys:   maxAPIKeys,
	}
	for _, b := range []struct {
		name     string
		history  int64
		maxBytes int64
		bucket   **bucket
	}{
		{"PROJECTS", projectHistory, config.MaxBytes, &s.projects},
		{"USERS", userHistory, config.MaxBytes, &s.users},
		{"ALERTS", sideHistory, config.MaxBytes / sideShare, &s.alerts},
		{"USES", sideHistory, config.MaxBytes / sideShare, &s.uses},
	} {
		if *b.bucket, err = openBucket(ctx, js, b.name, b.history, b.maxBytes, config.Replicas); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// projectKey spells the name as a key: a key's dots may neither be doubled nor
// stand at an end, and "=" is in no name.
func projectKey(name string) string {
	return projectKeys + strings.ReplaceAll(name, ".", "=")
}

// projectName is the inverse of projectKey.
func projectName(key string) string {
	return strings.ReplaceAll(strings.TrimPrefix(key, projectKeys), "=", ".")
}

const projectKeys = "project."

// idKey spells a project's ID as a part of a key, and keyID reads it: "/" is in
// no ID, and "~" in no key.
func idKey(projectID string) string {
	return strings.NewReplacer(".", "=", "~", "/").Replace(projectID)
}

func keyID(key string) string {
	return strings.NewReplacer("=", ".", "/", "~").Replace(key)
}

// CreateProject makes a project. ErrNameTaken where there is one of the name;
// of several callers at once exactly one makes it.
func (s *Store) CreateProject(ctx context.Context, name string) (Project, error) {
	if err := CheckName(name); err != nil {
		return Project{}, err
	}
	at := now()
	p := Project{ID: newID(name), Name: name, Created: at, Changed: at, Settings: s.settings}
	_, err := s.projects.create(ctx, projectKey(name), p)
	if errors.Is(err, errExists) {
		return Project{}, fmt.Errorf("project %s: %w", name, ErrNameTaken)
	}
	if err != nil {
		return Project{}, err
	}
	return p, nil
}

// now is the time as the record keeps it.
func now() time.Time { return time.Now().UTC() }

// Project finds a project by its name; ErrNotFound where there is none.
func (s *Store) Project(ctx context.Context, name string) (Project, error) {
	p, _, err := s.project(ctx, name)
	return p, err
}

func (s *Store) project(ctx context.Context, name string) (p Project, revision uint64, err error) {
	if CheckName(name) != nil {
		return p, 0, fmt.Errorf("project: %w", ErrNotFound) // no such name can exist, and it could be no key
	}
	revision, err = s.projects.read(ctx, projectKey(name), &p)
	if errors.Is(err, ErrNotFound) {
		return p, 0, fmt.Errorf("project %s: %w", name, ErrNotFound)
	}
	p.Settings.fill()
	return p, revision, err
}

// maxProjectPage bounds one answer of Projects.
const maxProjectPage = 1000

// Projects lists the projects whose names sort after the one given, by name, at
// most limit of them (1 to 1000; 0 means 1000). The last name of a full page is
// where the next page begins.
func (s *Store) Projects(ctx context.Context, after string, limit int) ([]Project, error) {
	if limit <= 0 || limit > maxProjectPage {
		limit = maxProjectPage
	}
	found := map[string]Project{}
	err := s.projects.scan(ctx, projectKeys+"*", func(entry jetstream.KeyValueEntry) error {
		name := projectName(entry.Key())
		if name <= after {
			return nil
		}
		var p Project
		if err := json.Unmarshal(entry.Value(), &p); err != nil {
			return fmt.Errorf("read %s: %w", entry.Key(), err)
		}
		p.Settings.fill()
		found[name] = p
		return nil
	})
	if err != nil {
		return nil, err
	}
	list := sorted(found, func(a, b Project) int { return strings.Compare(a.Name, b.Name) })
	return list[:min(limit, len(list))], nil
}

func sorted[K comparable, V any](found map[K]V, compare func(a, b V) int) []V {
	list := make([]V, 0, len(found))
	for _, v := range found {
		list = append(list, v)
	}
	slices.SortFunc(list, compare)
	return list
}

// changeAttempts bounds how often a change starts over because somebody else's
// came first.
const changeAttempts = 10

// ChangeSettings applies change to the project's settings, whatever others
// change at the same time: change may be called more than once.
func (s *Store) ChangeSettings(ctx context.Context, name string, change func(*Settings)) (Project, error) {
	for range changeAttempts {
		p, revision, err := s.project(ctx, name)
		if err != nil {
			return Project{}, err
		}
		change(&p.Settings)
		p.Changed = now()
		if err := p.Settings.Validate(); err != nil {
			return Project{}, err
		}
		_, err = s.projects.swap(ctx, projectKey(name), p, revision)
		if !errors.Is(err, errSwapped) {
			return p, err
		}
	}
	return Project{}, fmt.Errorf("project %s: %w: others change it without pause", name, ErrUnavailable)
}

// DeleteProject deletes the project, and its tokens with it at once: a token
// counts only while its project is there under the same ID. Alerts and what is
// known of the tokens' use go too. It returns what was deleted, whose ID is what
// its data is to be removed by.
func (s *Store) DeleteProject(ctx context.Context, name string) (Project, error) {
	for range changeAttempts {
		p, revision, err := s.project(ctx, name)
		if err != nil {
			return Project{}, err
		}
		err = s.projects.remove(ctx, projectKey(name), revision)
		if errors.Is(err, errSwapped) {
			continue
		}
		if err != nil {
			return Project{}, err
		}
		s.tidyUp(ctx, p.ID)
		return p, nil
	}
	return Project{}, fmt.Errorf("project %s: %w: others change it without pause", name, ErrUnavailable)
}

// tidyUp clears away what belonged to a project that is gone. Its errors are of
// no interest: what it leaves behind opens nothing, and Sweep finds it.
func (s *Store) tidyUp(ctx context.Context, projectID string) {
	_ = s.removeTokens(ctx, projectID)
	_ = s.alerts.clear(ctx, alertKeys+idKey(projectID))
	_ = s.uses.clear(ctx, useKeys+idKey(projectID))
}
