package people

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/logboom/logboom/pkg/config"
	"github.com/logboom/logboom/pkg/kv"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/secret"
	"github.com/logboom/logboom/pkg/token"
)

// The settings that errors name.
const (
	settingEmail    = "LOGBOOM_BOOTSTRAP_ADMIN_EMAIL"
	settingPassword = "LOGBOOM_BOOTSTRAP_ADMIN_PASSWORD"
	settingAPIKey   = "LOGBOOM_BOOTSTRAP_API_KEY"
	settingProject  = "LOGBOOM_BOOTSTRAP_PROJECT"
	settingToken    = "LOGBOOM_BOOTSTRAP_TOKEN"
)

// ValidateBootstrap names the first bootstrap setting that is wrong. The error
// does not contain a secret.
func ValidateBootstrap(b config.Bootstrap) error {
	if b.AdminPassword.IsSet() && b.AdminEmail == "" {
		return fmt.Errorf("%s: set the admin's address together with %s", settingEmail, settingPassword)
	}
	if b.Token.IsSet() && b.Project == "" {
		return fmt.Errorf("%s: name the project of %s", settingProject, settingToken)
	}
	for _, check := range []struct {
		setting string
		isSet   bool
		check   func() error
	}{
		{settingEmail, b.AdminEmail != "", func() error { _, err := cleanEmail(b.AdminEmail); return err }},
		{settingPassword, b.AdminEmail != "", func() error { return checkPassword(b.AdminPassword) }},
		{settingAPIKey, b.APIKey.IsSet(), func() error { _, err := digestAPIKey(b.APIKey.Reveal()); return err }},
		{settingProject, b.Project != "", func() error { return project.CheckName(b.Project) }},
		{settingToken, b.Token.IsSet(), func() error {
			if _, err := token.Parse(b.Token.Reveal()); err != nil {
				return fmt.Errorf("%w: a token is %s and %d characters with a checksum; bin/admin token new prints one", err, token.Prefix, secret.GeneratedLen-len(token.Prefix))
			}
			return nil
		}},
	} {
		if !check.isSet {
			continue
		}
		if err := check.check(); err != nil {
			return fmt.Errorf("%s: %w", check.setting, err)
		}
	}
	return nil
}

// Created is what Bootstrap created. It contains only values that Bootstrap
// chose itself: they must be shown now, because they cannot be read later.
type Created struct {
	First         bool   // this call created the first contents
	AdminEmail    string // of a demo, like everything that follows
	AdminPassword secret.Value
	APIKey        secret.Value
	Project       string
	Token         secret.Value
}

const (
	demoEmail      = "admin@localhost"
	demoProject    = "demo"
	bootstrapLabel = "bootstrap" // the name of the token and the API key
)

// Bootstrap creates what the settings name, if the buckets were never written
// to. Otherwise it does nothing, whatever the settings are. If demo is true and
// the settings name nothing, it creates an admin with a random password, a
// project "demo" with a token, and an API key. Of several processes at once one
// does it and the others wait; if that one dies, another one finishes.
func (s *Store) Bootstrap(ctx context.Context, tokens *token.Store, b config.Bootstrap, demo bool) (Created, error) {
	if err := ValidateBootstrap(b); err != nil {
		return Created{}, err
	}
	isEmpty := b.AdminEmail == "" && b.Project == "" && !b.APIKey.IsSet()
	if isEmpty && !demo {
		return Created{}, nil
	}
	claim, err := s.claimBootstrap(ctx)
	if err != nil || claim == 0 {
		return Created{}, err
	}
	created := Created{First: true}
	if isEmpty {
		b = config.Bootstrap{
			AdminEmail: demoEmail, AdminPassword: secret.Generate(""), APIKey: secret.Generate(apiKeyPrefix),
			Project: demoProject, Token: token.New(),
		}
		created = Created{true, b.AdminEmail, b.AdminPassword, b.APIKey, b.Project, b.Token}
	}
	if err := s.createContents(ctx, tokens, b); err != nil {
		return Created{}, err
	}
	_, err = s.users.Update(ctx, bootstrapKey, bootstrapMark{bootstrapDone, time.Now().UTC()}, claim)
	if errors.Is(err, kv.ErrChanged) {
		return Created{}, nil // this process was suspended, and another one took over
	}
	if err != nil {
		return Created{}, fmt.Errorf("finish the bootstrap: %w", err)
	}
	return created, nil
}

// createContents creates what the settings name. It accepts what an attempt that
// was interrupted has already created.
func (s *Store) createContents(ctx context.Context, tokens *token.Store, b config.Bootstrap) error {
	if b.AdminEmail != "" {
		if err := s.bootstrapAdmin(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", settingEmail, err)
		}
	}
	if b.Project != "" {
		_, err := s.projects.CreateProject(ctx, b.Project)
		if err != nil && !errors.Is(err, project.ErrNameTaken) {
			return fmt.Errorf("%s: %w", settingProject, err)
		}
	}
	if b.Token.IsSet() {
		if _, err := tokens.AddToken(ctx, b.Project, bootstrapLabel, b.Token); err != nil {
			return fmt.Errorf("%s: %w", settingToken, err)
		}
	}
	if b.APIKey.IsSet() {
		if _, err := s.AddAPIKey(ctx, bootstrapLabel, RoleAdmin, b.APIKey); err != nil {
			return fmt.Errorf("%s: %w", settingAPIKey, err)
		}
	}
	return nil
}

// bootstrapAdmin creates the first admin. If an interrupted attempt has created
// it, it sets the password that is wanted now: a random one was never shown.
func (s *Store) bootstrapAdmin(ctx context.Context, b config.Bootstrap) error {
	_, err := s.CreateFirstAdmin(ctx, b.AdminEmail, b.AdminPassword)
	if !errors.Is(err, ErrClosed) {
		return err
	}
	fresh, err := s.newUser(ctx, b.AdminEmail, b.AdminPassword, RoleAdmin)
	if err != nil {
		return err
	}
	entry, err := s.users.Get(ctx, userKey(fresh.Email))
	if err != nil {
		return err
	}
	_, err = s.users.Update(ctx, entry.Key, fresh, entry.Revision)
	return err
}

const bootstrapKey = "bootstrap"

// The states of a bootstrap: claimed by the process that does it, then done.
const (
	bootstrapClaimed = "claimed"
	bootstrapDone    = "done"
)

type bootstrapMark struct {
	State string    `json:"state"`
	Since time.Time `json:"since"`
}

// A claim that does not change for claimAge belongs to a process that died: the
// bootstrap takes a fraction of a second. The age is what the waiting process
// has observed, because clocks differ.
const (
	claimAge  = 5 * time.Second
	claimPoll = 50 * time.Millisecond
)

// claimBootstrap claims the bootstrap for this process and returns the revision
// of the claim. It returns 0 if there is nothing to do, after waiting for
// another process that does it.
func (s *Store) claimBootstrap(ctx context.Context) (uint64, error) {
	poll := time.NewTicker(claimPoll)
	defer poll.Stop()
	var other uint64 // the claim of another process, and since when it was seen
	var since time.Time
	for {
		mark, found, err := s.loadBootstrap(ctx)
		if err != nil || mark.State == bootstrapDone {
			return 0, err
		}
		if found != other {
			other, since = found, time.Now()
		}
		if found == 0 {
			isNew, err := s.neverWritten(ctx)
			if err != nil || !isNew {
				return 0, err
			}
		}
		if found == 0 || time.Since(since) > claimAge {
			claim, err := s.users.Swap(ctx, bootstrapKey, bootstrapMark{bootstrapClaimed, time.Now().UTC()}, found)
			if !errors.Is(err, kv.ErrChanged) {
				return claim, err
			}
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return 0, fmt.Errorf("wait for the bootstrap of another process: %w", ctx.Err())
		}
	}
}

func (s *Store) loadBootstrap(ctx context.Context) (mark bootstrapMark, revision uint64, err error) {
	revision, err = s.users.Load(ctx, bootstrapKey, &mark)
	if errors.Is(err, kv.ErrNotFound) {
		return mark, 0, nil
	}
	return mark, revision, err
}

// neverWritten reports whether nothing but the claim of another process's
// bootstrap was ever written to the buckets.
func (s *Store) neverWritten(ctx context.Context) (bool, error) {
	for _, bucket := range []*kv.Bucket{s.projects.Bucket(), s.users} {
		last, err := bucket.Revision(ctx)
		if err != nil {
			return false, err
		}
		if last == 0 {
			continue
		}
		_, claimed, err := s.loadBootstrap(ctx)
		return claimed != 0, err
	}
	return true, nil
}

const firstAdminKey = "first-admin"

// firstAdmin marks that the first admin was created. It holds the user until the
// user's own key exists. If the process crashes in between, the next caller
// finishes: there is never a second first admin, and never none.
type firstAdmin struct {
	Email string        `json:"email"`
	User  *userDocument `json:"user,omitempty"` // nil: the user's own key exists
}

// CreateFirstAdmin creates an admin without anybody's permission. It succeeds
// once in the life of the buckets, for one caller; all others get ErrClosed.
func (s *Store) CreateFirstAdmin(ctx context.Context, email string, password secret.Value) (User, error) {
	open, err := s.FirstAdminOpen(ctx)
	if err != nil {
		return User{}, err
	}
	if !open {
		return User{}, ErrClosed // before a password is hashed for nothing
	}
	u, err := s.newUser(ctx, email, password, RoleAdmin)
	if err != nil {
		return User{}, err
	}
	_, err = s.users.Create(ctx, firstAdminKey, firstAdmin{u.Email, &u})
	if errors.Is(err, kv.ErrExists) {
		return User{}, ErrClosed
	}
	if err != nil {
		return User{}, err
	}
	return u.User, s.finishFirstAdmin(ctx)
}

// FirstAdminOpen reports whether the first admin is still to be created.
func (s *Store) FirstAdminOpen(ctx context.Context) (bool, error) {
	var mark firstAdmin
	_, err := s.users.Load(ctx, firstAdminKey, &mark)
	if errors.Is(err, kv.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if mark.User == nil {
		return false, nil
	}
	return false, s.finishFirstAdmin(ctx) // a process crashed before it had finished
}

func (s *Store) finishFirstAdmin(ctx context.Context) error {
	var mark firstAdmin
	revision, err := s.users.Load(ctx, firstAdminKey, &mark)
	if err != nil || mark.User == nil {
		return err
	}
	_, err = s.users.Create(ctx, userKey(mark.Email), mark.User)
	if err != nil && !errors.Is(err, kv.ErrExists) {
		return err
	}
	_, err = s.users.Update(ctx, firstAdminKey, firstAdmin{Email: mark.Email}, revision)
	if errors.Is(err, kv.ErrChanged) {
		return nil // another process finished it
	}
	return err
}
