package people

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/kv"
	"github.com/logboom/logboom/pkg/project"
)

// How long a session lives: after its last use, and after the sign-in in any
// case. Its use is stored only every touchEvery, so that reading pages costs no
// writes; the idle time can be shorter by as much.
const (
	Idle       = 12 * time.Hour
	Lifetime   = 7 * 24 * time.Hour
	touchEvery = 10 * time.Minute
)

// The bounds of the buckets SESSIONS and MEMBERS. A session takes about 300
// bytes and a membership up to 4 KiB.
const (
	sessionsBytes       = 32 << 20
	maxSessionsDocument = 16 << 10
)

// ErrNoSession means that a request has no session, or one that has ended.
var ErrNoSession = errors.New("not signed in")

// Person is somebody who is signed in.
type Person struct {
	Email string
	Role  Role

	// Projects are the IDs of the projects that the person is limited to. An
	// admin without any may do everything; a member without any may do nothing.
	Projects []string
}

// session is how a session is stored. UserSince and PasswordChanges bind it to
// one user and one password: it does not count for a later user with the same
// address, and ends when the password is changed.
type session struct {
	Email           string    `json:"email"`
	UserSince       time.Time `json:"user_since"`
	PasswordChanges int       `json:"password_changes,omitempty"`
	Began           time.Time `json:"began"`
	Seen            time.Time `json:"seen"`
}

// Sessions stores the sessions of all users, the projects that users are limited
// to, and the set-up codes. All methods may be called at once, in any number of
// processes.
type Sessions struct {
	sessions *kv.Bucket
	members  *kv.Bucket
	users    *Store
	now      func() time.Time
}

// OpenSessions opens the sessions of the users and creates their buckets if they
// are missing, with so many replicas.
func OpenSessions(ctx context.Context, js jetstream.JetStream, users *Store, replicas int) (*Sessions, error) {
	s := &Sessions{users: users, now: time.Now}
	cfg := kv.Config{Name: "SESSIONS", MaxBytes: sessionsBytes, MaxValueBytes: maxSessionsDocument, MaxAge: Lifetime, Replicas: replicas}
	var err error
	if s.sessions, err = kv.Open(ctx, js, cfg); err != nil {
		return nil, err
	}
	cfg.Name, cfg.MaxAge = "MEMBERS", 0
	s.members, err = kv.Open(ctx, js, cfg)
	return s, err
}

// tokenBytes is the number of random bytes in a session's token.
const tokenBytes = 32

// Begin creates a session for a user who has just signed in. The browser stores
// the token; the bucket stores only its digest.
func (s *Sessions) Begin(ctx context.Context, user User) (token string, err error) {
	raw := make([]byte, tokenBytes)
	_, _ = rand.Read(raw) // never fails: crypto/rand stops the process instead
	token = base64.RawURLEncoding.EncodeToString(raw)
	now := s.now().UTC()
	_, err = s.sessions.Create(ctx, sessionKey(token), session{user.Email, user.Created, user.PasswordChanges, now, now})
	if err != nil {
		return "", err
	}
	return token, nil
}

// Person returns who signed in with the session of the token. ErrNoSession means
// that there is no such session, or that it has ended.
func (s *Sessions) Person(ctx context.Context, token string) (Person, error) {
	if base64.RawURLEncoding.DecodedLen(len(token)) != tokenBytes {
		return Person{}, ErrNoSession
	}
	var found session
	revision, err := s.sessions.Load(ctx, sessionKey(token), &found)
	if errors.Is(err, kv.ErrNotFound) {
		return Person{}, ErrNoSession
	}
	if err != nil {
		return Person{}, err
	}
	now := s.now().UTC()
	if now.Sub(found.Seen) > Idle || now.Sub(found.Began) > Lifetime {
		return Person{}, errors.Join(ErrNoSession, s.End(ctx, token))
	}
	user, err := s.users.User(ctx, found.Email)
	if errors.Is(err, project.ErrNotFound) {
		return Person{}, ErrNoSession
	}
	if err != nil {
		return Person{}, err
	}
	if !user.Created.Equal(found.UserSince) || user.PasswordChanges != found.PasswordChanges {
		return Person{}, ErrNoSession
	}
	if now.Sub(found.Seen) > touchEvery {
		found.Seen = now
		// If it fails, another request stored the use or ended the session, or
		// the next request tries again.
		_, _ = s.sessions.Update(ctx, sessionKey(token), found, revision)
	}
	projects, err := s.Projects(ctx, user)
	return Person{user.Email, user.Role, projects}, err
}

// End ends the session. It does nothing if there is none.
func (s *Sessions) End(ctx context.Context, token string) error {
	return s.sessions.Delete(ctx, sessionKey(token), 0)
}

func sessionKey(token string) string { return "session." + hexDigest(token) }

func hexDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// NewSetupCode returns a code with which the first admin can be created. Show it
// only where an operator looks. Each process creates its own; all of them are
// valid until the first admin exists or a week has passed.
func (s *Sessions) NewSetupCode(ctx context.Context) (string, error) {
	code := rand.Text()
	if _, err := s.sessions.Put(ctx, setupKey(code), struct{}{}); err != nil {
		return "", err
	}
	return code, nil
}

// IsSetupCode reports whether the code was created by NewSetupCode. Case and
// surrounding spaces do not matter.
func (s *Sessions) IsSetupCode(ctx context.Context, code string) (bool, error) {
	_, err := s.sessions.Get(ctx, setupKey(strings.ToUpper(strings.TrimSpace(code))))
	if errors.Is(err, kv.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// setupKey uses a digest, so that neither the time of a read nor the bucket
// reveals a code.
func setupKey(code string) string { return "setup." + hexDigest(code) }

// membership is how the projects of a user are stored, by their IDs: a project
// that is created again under its old name has no members.
type membership struct {
	Email     string    `json:"email"`
	UserSince time.Time `json:"user_since"`
	Projects  []string  `json:"projects"`
}

func memberKey(email string) string { return "member." + hexDigest(email) }

// Projects returns the IDs of the projects that the user is limited to, or nil
// if nobody has limited the user.
func (s *Sessions) Projects(ctx context.Context, user User) ([]string, error) {
	var found membership
	_, err := s.members.Load(ctx, memberKey(user.Email), &found)
	if errors.Is(err, kv.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !found.UserSince.Equal(user.Created) {
		return nil, nil // of an earlier user with this address
	}
	return found.Projects, nil
}

// Limit limits the user to the projects with the IDs, at most 100.
func (s *Sessions) Limit(ctx context.Context, user User, projectIDs []string) error {
	if len(projectIDs) > maxKeyProjects {
		return &project.InvalidError{Field: "projects", Reason: fmt.Sprintf("must be at most %d", maxKeyProjects)}
	}
	_, err := s.members.Put(ctx, memberKey(user.Email), membership{user.Email, user.Created, projectIDs})
	return err
}

// DeleteMembership deletes the limits of a user who was deleted.
func (s *Sessions) DeleteMembership(ctx context.Context, email string) error {
	return s.members.Delete(ctx, memberKey(email), 0)
}
