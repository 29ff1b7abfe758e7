package project

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/mail"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
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

	// PasswordChanges is how often the password was changed. Whoever signed in
	// before the newest change is to sign in again.
	PasswordChanges int `json:"password_changes,omitempty"`
}

type userDocument struct {
	User
	PasswordHash string `json:"password_hash"`
}

const userKeys = "user."

// userKey hides the address in a digest, since a key has no room for its
// characters.
func userKey(email string) string {
	sum := sha256.Sum256([]byte(email))
	return userKeys + hex.EncodeToString(sum[:16])
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
	return userDocument{User{Email: clean, Role: role, Created: now()}, hash}, nil
}

// User finds a user by the address; ErrNotFound where there is none.
func (s *Store) User(ctx context.Context, email string) (User, error) {
	u, _, err := s.user(ctx, email)
	return u.User, err
}

func (s *Store) user(ctx context.Context, email string) (u userDocument, revision uint64, err error) {
	clean, err := cleanEmail(email)
	if err != nil {
		return u, 0, fmt.Errorf("user: %w", ErrNotFound)
	}
	revision, err = s.users.read(ctx, userKey(clean), &u)
	if errors.Is(err, ErrNotFound) {
		return u, 0, fmt.Errorf("user %s: %w", clean, ErrNotFound)
	}
	return u, revision, err
}

// maxUserPage bounds one answer of Users.
const maxUserPage = 1000

// Users lists the users whose addresses sort after the one given, by address,
// at most limit of them (1 to 1000; 0 means 1000). The last address of a full
// page is where the next page begins.
func (s *Store) Users(ctx context.Context, after string, limit int) ([]User, error) {
	if limit <= 0 || limit > maxUserPage {
		limit = maxUserPage
	}
	found := map[string]User{}
	err := s.eachUser(ctx, func(u User) {
		if u.Email > after {
			found[u.Email] = u
		}
	})
	if err != nil {
		return nil, err
	}
	list := sorted(found, func(a, b User) int { return strings.Compare(a.Email, b.Email) })
	return list[:min(limit, len(list))], nil
}

func (s *Store) eachUser(ctx context.Context, each func(User)) error {
	return s.users.scan(ctx, userKeys+"*", func(entry jetstream.KeyValueEntry) error {
		var u User
		if err := json.Unmarshal(entry.Value(), &u); err != nil {
			return fmt.Errorf("read %s: %w", entry.Key(), err)
		}
		each(u)
		return nil
	})
}

// ChangeRole gives the user another role; ErrLastAdmin where nobody else is
// admin.
func (s *Store) ChangeRole(ctx context.Context, email string, role Role) (User, error) {
	if err := role.check(); err != nil {
		return User{}, err
	}
	return s.changeUser(ctx, email, role)
}

// DeleteUser deletes the user; ErrLastAdmin where nobody else is admin. The
// user's sessions are not the record's, and are to be ended too.
func (s *Store) DeleteUser(ctx context.Context, email string) error {
	_, err := s.changeUser(ctx, email, "")
	return err
}

// changeUser gives the user the role, or deletes the user where it is empty. It
// looks for another admin before and after: two who take each other's role at
// the same time see it only then, and what takes the last one is undone.
func (s *Store) changeUser(ctx context.Context, email string, role Role) (User, error) {
	for range changeAttempts {
		old, revision, err := s.user(ctx, email)
		if err != nil {
			return User{}, err
		}
		check := func() error { return nil }
		if old.Role == RoleAdmin && role != RoleAdmin {
			check = func() error { return s.anotherAdmin(ctx, old.Email) }
		}
		if err := check(); err != nil {
			return User{}, err
		}
		changed := old
		changed.Role = role
		revision, err = s.replaceUser(ctx, changed, revision)
		if errors.Is(err, errSwapped) {
			continue
		}
		if err != nil {
			return User{}, err
		}
		if err := check(); err != nil {
			return User{}, errors.Join(err, s.putBack(ctx, old, revision))
		}
		return changed.User, nil
	}
	return User{}, fmt.Errorf("user %s: %w: others change it without pause", email, ErrUnavailable)
}

// replaceUser writes the user whose revision is still the one given, or deletes
// one without a role, and tells the next revision: 0 after a deletion.
func (s *Store) replaceUser(ctx context.Context, u userDocument, revision uint64) (uint64, error) {
	if u.Role == "" {
		return 0, s.users.remove(ctx, userKey(u.Email), revision)
	}
	return s.users.swap(ctx, userKey(u.Email), u, revision)
}

// anotherAdmin is ErrLastAdmin unless somebody else than the user is admin.
func (s *Store) anotherAdmin(ctx context.Context, email string) error {
	found := false
	err := s.eachUser(ctx, func(u User) {
		found = found || u.Role == RoleAdmin && u.Email != email
	})
	if err == nil && !found {
		err = fmt.Errorf("user %s: %w", email, ErrLastAdmin)
	}
	return err
}

// putBack undoes a change of the user, unless somebody else changed it since.
func (s *Store) putBack(ctx context.Context, old userDocument, revision uint64) error {
	err := s.users.put(context.WithoutCancel(ctx), userKey(old.Email), old, revision)
	if errors.Is(err, errSwapped) {
		return nil
	}
	return err
}

// SignIn finds the user whose address and password these are. ErrCredentials
// says that one of them is wrong, never which, and takes as long either way.
func (s *Store) SignIn(ctx context.Context, email string, password Secret) (User, error) {
	u, _, err := s.signIn(ctx, email, password)
	return u.User, err
}

func (s *Store) signIn(ctx context.Context, email string, password Secret) (found userDocument, revision uint64, err error) {
	u := userDocument{PasswordHash: unknownUserHash}
	if clean, err := cleanEmail(email); err == nil {
		revision, err = s.users.read(ctx, userKey(clean), &u)
		if err != nil && !errors.Is(err, ErrNotFound) {
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

// ChangePassword gives the user a new password in place of the old one;
// ErrCredentials where that is not theirs, or no longer.
func (s *Store) ChangePassword(ctx context.Context, email string, old, password Secret) (User, error) {
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
	return s.swapPassword(ctx, known, revision, hash)
}

// SetPassword gives the user a new password without asking for the old one: an
// administrator's affair. Where two change it at once, one gets ErrCredentials.
func (s *Store) SetPassword(ctx context.Context, email string, password Secret) (User, error) {
	hash, err := s.passwords.hash(ctx, password)
	if err != nil {
		return User{}, err
	}
	known, revision, err := s.user(ctx, email)
	if err != nil {
		return User{}, err
	}
	return s.swapPassword(ctx, known, revision, hash)
}

// swapPassword replaces the password that was read at the revision. Where only
// the role was changed meanwhile, it is kept; where the password was, that one
// stands.
func (s *Store) swapPassword(ctx context.Context, known userDocument, revision uint64, hash string) (User, error) {
	for range changeAttempts {
		changed := known
		changed.PasswordHash = hash
		changed.PasswordChanges++
		_, err := s.users.swap(ctx, userKey(known.Email), changed, revision)
		if err == nil {
			return changed.User, nil
		}
		if !errors.Is(err, errSwapped) {
			return User{}, err
		}
		before := known.PasswordHash
		known, revision, err = s.user(ctx, known.Email)
		if err != nil {
			return User{}, err
		}
		if known.PasswordHash != before {
			return User{}, ErrCredentials
		}
	}
	return User{}, fmt.Errorf("user %s: %w: others change it without pause", known.Email, ErrUnavailable)
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
