package admin

import (
	"context"
	"errors"

	"github.com/logboom/logboom/pkg/people"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/secret"
)

// Errors of signing in. Beside them the errors of pkg/admin/session and
// people.ErrCredentials are returned.
var (
	// ErrSetupDone says that the first admin exists.
	ErrSetupDone = errors.New("the first admin exists already")
	// ErrSetupCode says that a set-up code is wrong.
	ErrSetupCode = errors.New("wrong set-up code")
	// ErrNotInvited says that a company account is no user's.
	ErrNotInvited = errors.New("no user has the address of this company account: ask an administrator to add you")
	// ErrNoCompany says that company sign-in is not set up.
	ErrNoCompany = errors.New("company sign-in is not set up")
)

// SignIn checks a password and returns the token of a new session. The session
// with the old token, if any, ends. The errors are people.ErrCredentials,
// which never says whether address or password is wrong, and
// people.ThrottledError.
func (s *Service) SignIn(ctx context.Context, caller Caller, old, email string, password secret.Value) (token string, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ChangeTimeout) // passwords are hashed a few at a time, so that this may wait
	defer cancel()
	user, err := s.deps.Gate.SignIn(ctx, email, password, caller.Address)
	if err != nil {
		return "", err
	}
	return s.beginSession(ctx, caller, old, user)
}

// beginSession begins a session of the user under a new token, whatever token
// the client came with, and ends that one.
func (s *Service) beginSession(ctx context.Context, caller Caller, old string, user people.User) (token string, err error) {
	token, err = s.renewSession(ctx, old, user)
	if err != nil {
		return "", err
	}
	caller.Email = user.Email
	s.record(ctx, caller, PersonSignedIn, project.Project{}, "")
	return token, nil
}

func (s *Service) renewSession(ctx context.Context, old string, user people.User) (token string, err error) {
	if old != "" {
		if err := s.deps.Sessions.End(ctx, old); err != nil {
			return "", err
		}
	}
	return s.deps.Sessions.Begin(ctx, user)
}

// SignOut ends the session with the token.
func (s *Service) SignOut(ctx context.Context, token string) error {
	return s.deps.Sessions.End(ctx, token)
}

// ChangePassword changes the caller's own password, which ends all their
// sessions, and returns the token of a new one. Its errors are SignIn's and a
// project.InvalidError for the new password.
func (s *Service) ChangePassword(ctx context.Context, caller Caller, token string, current, wanted secret.Value) (string, error) {
	ctx, cancel := s.changing(ctx)
	defer cancel()
	user, err := s.deps.Gate.ChangePassword(ctx, caller.Email, current, wanted, caller.Address)
	if err != nil {
		return "", err
	}
	s.record(ctx, caller, PasswordChanged, project.Project{}, "")
	return s.renewSession(ctx, token, user)
}

// HasCompanyAccounts reports whether company sign-in is set up.
func (s *Service) HasCompanyAccounts() bool { return s.deps.OIDC != nil }

// BeginCompanySignIn returns the address of the company's sign-in page, and the
// attempt that the browser must bring back.
func (s *Service) BeginCompanySignIn(ctx context.Context, caller Caller) (address string, attempt people.Attempt, err error) {
	if s.deps.OIDC == nil {
		return "", people.Attempt{}, ErrNoCompany
	}
	if err := s.deps.Gate.Try(caller.Address); err != nil {
		return "", people.Attempt{}, err
	}
	return s.deps.OIDC.Begin(ctx)
}

// FinishCompanySignIn returns the token of a new session for the person whom
// the company's sign-in page sent back, and ends the session with the old
// token. The error is ErrNotInvited where the account is no user's.
func (s *Service) FinishCompanySignIn(ctx context.Context, caller Caller, old string, attempt people.Attempt, state, code string) (token string, err error) {
	if s.deps.OIDC == nil {
		return "", ErrNoCompany
	}
	email, err := s.deps.OIDC.Finish(ctx, attempt, state, code)
	if err != nil {
		return "", err
	}
	user, err := s.deps.People.User(ctx, email)
	if errors.Is(err, project.ErrNotFound) {
		return "", ErrNotInvited
	}
	if err != nil {
		return "", err
	}
	s.deps.Gate.Passed(caller.Address)
	return s.beginSession(ctx, caller, old, user)
}

// SetupOpen reports whether the first admin is still to be created.
func (s *Service) SetupOpen(ctx context.Context) (bool, error) {
	return s.deps.People.FirstAdminOpen(ctx)
}

// OfferSetup writes a set-up code to the log, which only operators of the
// process read, as long as there is no admin.
func (s *Service) OfferSetup(ctx context.Context) error {
	open, err := s.SetupOpen(ctx)
	if err != nil || !open {
		return err
	}
	code, err := s.deps.Sessions.NewSetupCode(ctx)
	if err != nil {
		return err
	}
	s.deps.Logger.Warn("no admin exists yet: open the pages and create the first admin with the set-up code", "set-up code", code)
	return nil
}

// Setup creates the first admin for a caller with a set-up code and returns the
// token of a new session. The errors are ErrSetupDone, ErrSetupCode,
// people.ThrottledError and a project.InvalidError. Of several callers at
// once, one creates the admin.
func (s *Service) Setup(ctx context.Context, caller Caller, old, code, email string, password secret.Value) (token string, err error) {
	ctx, cancel := s.changing(ctx)
	defer cancel()
	open, err := s.SetupOpen(ctx)
	if err == nil && !open {
		err = ErrSetupDone
	}
	if err != nil {
		return "", err
	}
	if err := s.deps.Gate.Try(caller.Address); err != nil {
		return "", err
	}
	good, err := s.deps.Sessions.IsSetupCode(ctx, code)
	if err == nil && !good {
		err = ErrSetupCode
	}
	if err != nil {
		return "", err
	}
	user, err := s.deps.People.CreateFirstAdmin(ctx, email, password)
	if errors.Is(err, people.ErrClosed) {
		return "", ErrSetupDone
	}
	if err != nil {
		return "", err
	}
	s.deps.Gate.Passed(caller.Address)
	caller.Email = user.Email
	s.record(ctx, caller, UserCreated, project.Project{}, user.Email)
	return s.beginSession(ctx, caller, old, user)
}
