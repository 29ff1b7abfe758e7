package project

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Wanted is what the first start makes in an empty store; empty fields ask for
// nothing.
type Wanted struct {
	AdminEmail    string
	AdminPassword Secret
	APIKey        Secret
	Project       string
	Token         Secret // of Project

	// Demo asks, where nothing else is named, for an admin with a random
	// password, a project "demo" with a token, and an API key.
	Demo bool
}

// The settings that errors name.
const (
	settingEmail    = "LOGBOOM_BOOTSTRAP_ADMIN_EMAIL"
	settingPassword = "LOGBOOM_BOOTSTRAP_ADMIN_PASSWORD"
	settingAPIKey   = "LOGBOOM_BOOTSTRAP_API_KEY"
	settingProject  = "LOGBOOM_BOOTSTRAP_PROJECT"
	settingToken    = "LOGBOOM_BOOTSTRAP_TOKEN"
)

// Validate names the first setting that is wrong, and never a secret's value.
func (w *Wanted) Validate() error {
	if w.AdminPassword.IsSet() && w.AdminEmail == "" {
		return fmt.Errorf("%s: give the admin's address with %s", settingEmail, settingPassword)
	}
	if w.Token.IsSet() && w.Project == "" {
		return fmt.Errorf("%s: name the project of %s", settingProject, settingToken)
	}
	for _, check := range []struct {
		setting string
		given   bool
		check   func() error
	}{
		{settingEmail, w.AdminEmail != "", func() error { _, err := cleanEmail(w.AdminEmail); return err }},
		{settingPassword, w.AdminEmail != "", func() error { return checkPassword(w.AdminPassword) }},
		{settingAPIKey, w.APIKey.IsSet(), func() error { _, err := digestKey(w.APIKey.Reveal()); return err }},
		{settingProject, w.Project != "", func() error { return CheckName(w.Project) }},
		{settingToken, w.Token.IsSet(), func() error { return checkTokenForm(w.Token) }},
	} {
		if !check.given {
			continue
		}
		if err := check.check(); err != nil {
			return fmt.Errorf("%s: %w", check.setting, err)
		}
	}
	return nil
}

func checkTokenForm(token Secret) error {
	if _, err := ParseToken(token.Reveal()); err != nil {
		return fmt.Errorf("%w: a token is %s and %d characters with a checksum; bin/admin token new prints one", err, tokenPrefix, tokenLen-prefixLen)
	}
	return nil
}

func (w *Wanted) namesNothing() bool {
	return w.AdminEmail == "" && w.Project == "" && !w.APIKey.IsSet()
}

// Made is what Bootstrap made. Only values that it thought of itself are in it:
// they are to be printed now, for nobody can ask for them again.
type Made struct {
	First         bool   // this call made the store's first contents
	AdminEmail    string // of a demo, as all that follows
	AdminPassword Secret
	APIKey        Secret
	Project       string
	Token         Secret
}

// What a demo makes.
const (
	demoEmail   = "admin@localhost"
	demoProject = "demo"
	bootLabel   = "bootstrap" // the name of the token and API key
)

// Bootstrap makes what is wanted if the store was never written to, and
// otherwise nothing: a later start with the same settings, or others, changes
// nothing. Of several processes at once one makes it and the others wait for
// it; where that one dies on the way, the next finishes.
func Bootstrap(ctx context.Context, store *Store, wanted Wanted) (Made, error) {
	if err := wanted.Validate(); err != nil {
		return Made{}, err
	}
	demo := wanted.Demo && wanted.namesNothing()
	if !demo && wanted.namesNothing() {
		return Made{}, nil
	}
	claim, err := store.claimBootstrap(ctx)
	if err != nil || claim == 0 {
		return Made{}, err
	}
	made := Made{First: true}
	if demo {
		made.AdminEmail, made.AdminPassword = demoEmail, newSecret("")
		made.Project, made.Token = demoProject, NewToken()
		made.APIKey = newSecret(keyPrefix)
		wanted = Wanted{made.AdminEmail, made.AdminPassword, made.APIKey, made.Project, made.Token, true}
	}
	if err := store.makeAll(ctx, wanted); err != nil {
		return Made{}, err
	}
	_, err = store.users.swap(ctx, bootstrapKey, bootstrapMark{bootDone, now()}, claim)
	if errors.Is(err, errSwapped) {
		return Made{}, nil // this process was held up, and another took over
	}
	if err != nil {
		return Made{}, fmt.Errorf("finish the bootstrap: %w", err)
	}
	return made, nil
}

// makeAll makes what is wanted, and tolerates what is there from an attempt that
// was cut short.
func (s *Store) makeAll(ctx context.Context, w Wanted) error {
	if w.AdminEmail != "" {
		if err := s.makeAdmin(ctx, w); err != nil {
			return fmt.Errorf("%s: %w", settingEmail, err)
		}
	}
	if w.Project != "" {
		_, err := s.CreateProject(ctx, w.Project)
		if err != nil && !errors.Is(err, ErrNameTaken) {
			return fmt.Errorf("%s: %w", settingProject, err)
		}
	}
	if w.Token.IsSet() {
		if _, err := s.AddToken(ctx, w.Project, bootLabel, w.Token); err != nil {
			return fmt.Errorf("%s: %w", settingToken, err)
		}
	}
	if w.APIKey.IsSet() {
		if _, err := s.AddAPIKey(ctx, bootLabel, RoleAdmin, w.APIKey); err != nil {
			return fmt.Errorf("%s: %w", settingAPIKey, err)
		}
	}
	return nil
}

// makeAdmin makes the first admin, or gives the one of an attempt that was cut
// short the password that is wanted now: a random one of then was never shown.
func (s *Store) makeAdmin(ctx context.Context, w Wanted) error {
	_, err := s.CreateFirstAdmin(ctx, w.AdminEmail, w.AdminPassword)
	if !errors.Is(err, ErrClosed) {
		return err
	}
	fresh, err := s.newUser(ctx, w.AdminEmail, w.AdminPassword, RoleAdmin)
	if err != nil {
		return err
	}
	var old userDocument
	revision, err := s.users.read(ctx, userKey(fresh.Email), &old)
	if err != nil {
		return err
	}
	_, err = s.users.swap(ctx, userKey(fresh.Email), fresh, revision)
	return err
}

const bootstrapKey = "bootstrap"

// The states of a bootstrap: claimed by the process that makes it, then done
// for ever.
const (
	bootClaimed = "claimed"
	bootDone    = "done"
)

type bootstrapMark struct {
	State string    `json:"state"`
	Since time.Time `json:"since"`
}

// A claim that stands unchanged for claimAge belongs to a process that died:
// making everything takes a fraction of a second. The age is what the one who
// waits has seen of it, since clocks differ.
const (
	claimAge  = 5 * time.Second
	claimPoll = 50 * time.Millisecond
)

// claimBootstrap gives this process the bootstrap, as a revision of its mark;
// or 0 where there is nothing to do, after waiting for another process that is
// at it.
func (s *Store) claimBootstrap(ctx context.Context) (uint64, error) {
	poll := time.NewTicker(claimPoll)
	defer poll.Stop()
	var other uint64 // the claim of another process, and since when it stands
	var since time.Time
	for {
		mark, found, err := s.bootstrapMark(ctx)
		if err != nil || mark.State == bootDone {
			return 0, err
		}
		if found != other {
			other, since = found, time.Now()
		}
		if found == 0 || time.Since(since) > claimAge {
			claim, err := s.putClaim(ctx, found)
			if !errors.Is(err, errSwapped) && !errors.Is(err, errExists) {
				return claim, err
			}
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return 0, fmt.Errorf("wait for another process's bootstrap: %w", ctx.Err())
		}
	}
}

// putClaim claims the bootstrap where nobody has it, or in place of the claim
// given.
func (s *Store) putClaim(ctx context.Context, other uint64) (uint64, error) {
	if other == 0 {
		return s.firstClaim(ctx)
	}
	return s.users.swap(ctx, bootstrapKey, bootstrapMark{bootClaimed, now()}, other)
}

func (s *Store) bootstrapMark(ctx context.Context) (mark bootstrapMark, revision uint64, err error) {
	revision, err = s.users.read(ctx, bootstrapKey, &mark)
	if errors.Is(err, ErrNotFound) {
		return mark, 0, nil
	}
	return mark, revision, err
}

// firstClaim claims the bootstrap of a store that was never written to; 0 where
// it was. errExists says that another process was faster.
func (s *Store) firstClaim(ctx context.Context) (revision uint64, err error) {
	for _, b := range []*bucket{s.projects, s.users} {
		last, err := b.last(ctx)
		if err != nil {
			return 0, err
		}
		if last == 0 {
			continue
		}
		_, claimed, err := s.bootstrapMark(ctx)
		if err == nil && claimed != 0 {
			err = errExists // what was written is another's claim
		}
		return 0, err
	}
	return s.users.create(ctx, bootstrapKey, bootstrapMark{bootClaimed, now()})
}
