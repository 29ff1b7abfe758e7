package project

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/mail"
	"strings"
	"time"
)

// Role is what a user or API key may do.
type Role string

// The roles.
const (
	RoleAdmin  Role = "admin"
	RoleMember Role = "member"
)

func (r Role) check() error {
	if r != RoleAdmin && r != RoleMember {
		return &InvalidError{"role", "must be admin or member"}
	}
	return nil
}

// User is a person who may sign in.
type User struct {
	Email   string    `json:"email"` // lower case
	Role    Role      `json:"role"`
	Created time.Time `json:"created"`
}

type userDocument struct {
	User
	PasswordHash string `json:"password_hash"`
}

// userKey hides the address in a digest, since a key has no room for its
// characters.
func userKey(email string) string {
	sum := sha256.Sum256([]byte(email))
	return "user." + hex.EncodeToString(sum[:16])
}

const maxEmailLen = 254 // RFC 5321, section 4.5.3.1.3

// cleanEmail gives the one spelling by which a user is found.
func cleanEmail(email string) (string, error) {
	clean := strings.ToLower(strings.TrimSpace(email))
	parsed, err := mail.ParseAddress(clean)
	if err != nil || parsed.Address != clean || len(clean) > maxEmailLen {
		return "", &InvalidError{"email", "must be an address such as name@example.org"}
	}
	return clean, nil
}

// CreateUser makes a user; ErrNameTaken where the address has one.
func (s *Store) CreateUser(ctx context.Context, email string, password Secret, role Role) (User, error) {
	u, err := s.newUser(ctx, email, password, role)
	if err != nil {
		return User{}, err
	}
	_, err = s.users.create(ctx, userKey(u.Email), u)
	if errors.Is(err, errExists) {
		return User{}, fmt.Errorf("user %s: %w", u.Email, ErrNameTaken)
	}
	if err != nil {
		return User{}, err
	}
	return u.User, nil
}

func (s *Store) newUser(ctx context.Context, email string, password Secret, role Role) (userDocument, error) {
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
	return userDocument{User{clean, role, now()}, hash}, nil
}

// User finds a user by the address; ErrNotFound where there is none.
func (s *Store) User(ctx context.Context, email string) (User, error) {
	clean, err := cleanEmail(email)
	if err != nil {
		return User{}, fmt.Errorf("user: %w", ErrNotFound)
	}
	var u userDocument
	if _, err := s.users.read(ctx, userKey(clean), &u); err != nil {
		return User{}, err
	}
	return u.User, nil
}

// SignIn finds the user whose address and password these are. ErrCredentials
// says that one of them is wrong, never which, and takes as long either way.
func (s *Store) SignIn(ctx context.Context, email string, password Secret) (User, error) {
	u := userDocument{PasswordHash: unknownUserHash}
	if clean, err := cleanEmail(email); err == nil {
		_, err = s.users.read(ctx, userKey(clean), &u)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return User{}, err
		}
	}
	same, err := s.passwords.match(ctx, password, u.PasswordHash)
	if err != nil {
		return User{}, err
	}
	if !same || u.Email == "" {
		return User{}, ErrCredentials
	}
	return u.User, nil
}

const firstAdminKey = "first-admin"

// firstAdmin is the mark that the first admin was made. It holds the user until
// the user's own key is there, so that a crash between the two leaves neither
// an open way nor a closed one without an admin; whoever comes next finishes.
type firstAdmin struct {
	Email string        `json:"email"`
	User  *userDocument `json:"user,omitempty"` // nil: done
}

// CreateFirstAdmin makes the admin who needs nobody's permission. It succeeds
// once in the store's life, for one caller; everybody else gets ErrClosed.
func (s *Store) CreateFirstAdmin(ctx context.Context, email string, password Secret) (User, error) {
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
	_, err = s.users.create(ctx, firstAdminKey, firstAdmin{u.Email, &u})
	if errors.Is(err, errExists) {
		return User{}, ErrClosed
	}
	if err != nil {
		return User{}, err
	}
	return u.User, s.finishFirstAdmin(ctx)
}

// FirstAdminOpen tells whether the first admin is still to be made.
func (s *Store) FirstAdminOpen(ctx context.Context) (bool, error) {
	var mark firstAdmin
	_, err := s.users.read(ctx, firstAdminKey, &mark)
	if errors.Is(err, ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if mark.User == nil {
		return false, nil
	}
	return false, s.finishFirstAdmin(ctx) // a crash may have left it half-made
}

func (s *Store) finishFirstAdmin(ctx context.Context) error {
	var mark firstAdmin
	revision, err := s.users.read(ctx, firstAdminKey, &mark)
	if err != nil || mark.User == nil {
		return err
	}
	_, err = s.users.create(ctx, userKey(mark.Email), mark.User)
	if err != nil && !errors.Is(err, errExists) {
		return err
	}
	_, err = s.users.swap(ctx, firstAdminKey, firstAdmin{Email: mark.Email}, revision)
	if errors.Is(err, errSwapped) {
		return nil // somebody else finished it
	}
	return err
}
