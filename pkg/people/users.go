package people

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/mail"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/kv"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/secret"
)

// Errors that callers branch on, beside those of package project.
var (
	ErrUnknownKey  = errors.New("unknown API key")
	ErrCredentials = errors.New("wrong e-mail address or password")
	ErrClosed      = errors.New("the first admin exists already")
	ErrLastAdmin   = errors.New("the last admin must stay an admin: add another one first")
	ErrBusy        = errors.New("too many passwords are being checked")
)

// Role says what a user or API key may do.
type Role string

// The roles.
const (
	RoleAdmin  Role = "admin"
	RoleMember Role = "member"
)

func (r Role) check() error {
	if r != RoleAdmin && r != RoleMember {
		return &project.InvalidError{Field: "role", Reason: "must be admin or member"}
	}
	return nil
}

// User is a person who may sign in.
type User struct {
	Email   string    `json:"email"` // lower case
	Role    Role      `json:"role"`
	Created time.Time `json:"created"`

	// PasswordChanges counts the changes of the password. Sessions from before
	// the newest change have ended.
	PasswordChanges int `json:"password_changes,omitempty"`
}

type userDocument struct {
	User
	PasswordHash string `json:"password_hash"`
}

const userKeys = "user."

// userKey uses a digest of the address, because a key allows few characters.
func userKey(email string) string {
	sum := sha256.Sum256([]byte(email))
	return userKeys + hex.EncodeToString(sum[:16])
}

const maxEmailLen = 254 // RFC 5321, section 4.5.3.1.3

// cleanEmail returns the address in the one spelling by which a user is found.
func cleanEmail(email string) (string, error) {
	clean := strings.ToLower(strings.TrimSpace(email))
	parsed, err := mail.ParseAddress(clean)
	if err != nil || parsed.Address != clean || len(clean) > maxEmailLen {
		return "", &project.InvalidError{Field: "email", Reason: "must be an address such as name@example.org"}
	}
	return clean, nil
}

// The bounds of the bucket USERS and of the API keys in it. It keeps no older
// revisions, so that no old hash of a password stays.
const (
	usersBytes = 64 << 20
	maxAPIKeys = 1000
)

// Store reads and changes users and API keys. All methods may be called at once,
// in any number of processes. Their errors wrap project.ErrUnavailable where the
// bucket does not answer.
type Store struct {
	users     *kv.Bucket
	projects  *project.Store
	passwords *passwords
	maxKeys   int // less in tests
}

// Open opens the users and creates their bucket if it is missing, with so many
// replicas. API keys can be limited to the projects.
func Open(ctx context.Context, js jetstream.JetStream, projects *project.Store, replicas int) (*Store, error) {
	users, err := kv.Open(ctx, js, kv.Config{Name: "USERS", History: 1, MaxBytes: usersBytes, Replicas: replicas})
	if err != nil {
		return nil, err
	}
	return &Store{users: users, projects: projects, passwords: newPasswords(), maxKeys: maxAPIKeys}, nil
}

// CreateUser creates a user. project.ErrNameTaken means that there is one with
// the address.
func (s *Store) CreateUser(ctx context.Context, email string, password secret.Value, role Role) (User, error) {
	u, err := s.newUser(ctx, email, password, role)
	if err != nil {
		return User{}, err
	}
	_, err = s.users.Create(ctx, userKey(u.Email), u)
	if errors.Is(err, kv.ErrExists) {
		return User{}, fmt.Errorf("user %s: %w", u.Email, project.ErrNameTaken)
	}
	if err != nil {
		return User{}, err
	}
	return u.User, nil
}

func (s *Store) newUser(ctx context.Context, email string, password secret.Value, role Role) (userDocument, error) {
	clean, err := cleanEmail(email)
	if err != nil {
		return userDocument{}, err
	}
	if err := role.check(); err != nil {
		return userDocument{}, err
	}
	hash, err := s.passwords.hash(ctx, password)
	if err != nil {
		return userDocument{}, err
	}
	return userDocument{User{Email: clean, Role: role, Created: time.Now().UTC()}, hash}, nil
}

// User returns the user with the address, or project.ErrNotFound.
func (s *Store) User(ctx context.Context, email string) (User, error) {
	u, _, err := s.loadUser(ctx, email)
	return u.User, err
}

func (s *Store) loadUser(ctx context.Context, email string) (u userDocument, revision uint64, err error) {
	clean, err := cleanEmail(email)
	if err != nil {
		return u, 0, fmt.Errorf("user: %w", project.ErrNotFound)
	}
	revision, err = s.users.Load(ctx, userKey(clean), &u)
	if errors.Is(err, kv.ErrNotFound) {
		return u, 0, fmt.Errorf("user %s: %w", clean, project.ErrNotFound)
	}
	return u, revision, err
}

// maxUserPage bounds one answer of Users.
const maxUserPage = 1000

// Users lists the users whose addresses sort after the one given, by address, at
// most limit of them (1 to 1000; 0 means 1000). The next page begins after the
// last address of a full page.
func (s *Store) Users(ctx context.Context, after string, limit int) ([]User, error) {
	if limit <= 0 || limit > maxUserPage {
		limit = maxUserPage
	}
	list, err := s.allUsers(ctx)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(u User) bool { return u.Email <= after })
	slices.SortFunc(list, func(a, b User) int { return strings.Compare(a.Email, b.Email) })
	return list[:min(limit, len(list))], nil
}

func (s *Store) allUsers(ctx context.Context) ([]User, error) {
	entries, err := s.users.List(ctx, userKeys+"*")
	if err != nil {
		return nil, err
	}
	list := make([]User, len(entries))
	for i, entry := range entries {
		if err := entry.Decode(&list[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// ChangeRole gives the user another role. It fails with ErrLastAdmin if nobody
// else is an admin.
func (s *Store) ChangeRole(ctx context.Context, email string, role Role) (User, error) {
	if err := role.check(); err != nil {
		return User{}, err
	}
	return s.changeUser(ctx, email, role)
}

// DeleteUser deletes the user. It fails with ErrLastAdmin if nobody else is an
// admin. The user's sessions count no longer; the caller removes the user's
// membership.
func (s *Store) DeleteUser(ctx context.Context, email string) error {
	_, err := s.changeUser(ctx, email, "")
	return err
}

// changeUser gives the user the role, or deletes the user if the role is empty.
// It checks before and after that another admin exists: if two admins remove
// each other at the same time, only the second check notices, and the change is
// undone.
func (s *Store) changeUser(ctx context.Context, email string, role Role) (changed User, err error) {
	err = kv.Retry("user "+email, func() error {
		old, revision, err := s.loadUser(ctx, email)
		if err != nil {
			return err
		}
		check := func() error { return nil }
		if old.Role == RoleAdmin && role != RoleAdmin {
			check = func() error { return s.checkAnotherAdmin(ctx, old.Email) }
		}
		if err := check(); err != nil {
			return err
		}
		u := old
		u.Role = role
		changed = u.User
		if role == "" {
			err = s.users.Delete(ctx, userKey(u.Email), revision)
			revision = 0
		} else {
			revision, err = s.users.Update(ctx, userKey(u.Email), u, revision)
		}
		if err != nil {
			return err
		}
		if err := check(); err != nil {
			return errors.Join(err, s.restoreUser(ctx, old, revision))
		}
		return nil
	})
	if err != nil {
		return User{}, err
	}
	return changed, nil
}

// checkAnotherAdmin returns ErrLastAdmin unless somebody other than the user is
// an admin.
func (s *Store) checkAnotherAdmin(ctx context.Context, email string) error {
	list, err := s.allUsers(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(list, func(u User) bool { return u.Role == RoleAdmin && u.Email != email }) {
		return fmt.Errorf("user %s: %w", email, ErrLastAdmin)
	}
	return nil
}

// restoreUser undoes a change of the user, unless somebody changed the user
// since.
func (s *Store) restoreUser(ctx context.Context, old userDocument, revision uint64) error {
	_, err := s.users.Swap(context.WithoutCancel(ctx), userKey(old.Email), old, revision)
	if errors.Is(err, kv.ErrChanged) {
		return nil
	}
	return err
}

// SignIn returns the user with the address and password. ErrCredentials does not
// say which of them is wrong, and takes the same time for both.
func (s *Store) SignIn(ctx context.Context, email string, password secret.Value) (User, error) {
	u, _, err := s.signIn(ctx, email, password)
	return u.User, err
}

func (s *Store) signIn(ctx context.Context, email string, password secret.Value) (found userDocument, revision uint64, err error) {
	u := userDocument{PasswordHash: unknownUserHash}
	if clean, err := cleanEmail(email); err == nil {
		revision, err = s.users.Load(ctx, userKey(clean), &u)
		if err != nil && !errors.Is(err, kv.ErrNotFound) {
			return userDocument{}, 0, err
		}
	}
	same, err := s.passwords.match(ctx, password, u.PasswordHash)
	if err != nil {
		return userDocument{}, 0, err
	}
	if !same || u.Email == "" {
		return userDocument{}, 0, ErrCredentials
	}
	return u, revision, nil
}

// ChangePassword replaces the user's password. It fails with ErrCredentials if
// the old one is wrong or was changed at the same time.
func (s *Store) ChangePassword(ctx context.Context, email string, old, password secret.Value) (User, error) {
	if err := checkPassword(password); err != nil {
		return User{}, err
	}
	known, revision, err := s.signIn(ctx, email, old)
	if err != nil {
		return User{}, err
	}
	hash, err := s.passwords.hash(ctx, password)
	if err != nil {
		return User{}, err
	}
	return s.storePassword(ctx, known, revision, hash)
}

// SetPassword replaces the user's password without asking for the old one, for
// an administrator. If two set it at once, one gets ErrCredentials.
func (s *Store) SetPassword(ctx context.Context, email string, password secret.Value) (User, error) {
	hash, err := s.passwords.hash(ctx, password)
	if err != nil {
		return User{}, err
	}
	known, revision, err := s.loadUser(ctx, email)
	if err != nil {
		return User{}, err
	}
	return s.storePassword(ctx, known, revision, hash)
}

// storePassword replaces the password of a user who was read at the revision. If
// only the role was changed since, the new role stays; if the password was, the
// other password stays.
func (s *Store) storePassword(ctx context.Context, known userDocument, revision uint64, hash string) (User, error) {
	before := known.PasswordHash
	var changed userDocument
	err := kv.Retry("user "+known.Email, func() error {
		changed = known
		changed.PasswordHash = hash
		changed.PasswordChanges++
		_, err := s.users.Update(ctx, userKey(known.Email), changed, revision)
		if !errors.Is(err, kv.ErrChanged) {
			return err
		}
		var loadErr error
		if known, revision, loadErr = s.loadUser(ctx, known.Email); loadErr != nil {
			return loadErr
		}
		if known.PasswordHash != before {
			return ErrCredentials
		}
		return err
	})
	if err != nil {
		return User{}, err
	}
	return changed.User, nil
}
