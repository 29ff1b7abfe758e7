package session

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/project"
)

// How long a session lives: from its last use, and from its sign-in whatever
// happens. Its use is written down only now and then, so that reading pages
// costs no writes; the idle time is short by as much at the most.
const (
	Idle       = 12 * time.Hour
	Lifetime   = 7 * 24 * time.Hour
	touchEvery = 10 * time.Minute
)

// ErrNone says that a request belongs to nobody: it has no session, or one that
// ended.
var ErrNone = errors.New("not signed in")

// Users are the people who may sign in; project.Store has them.
type Users interface {
	SignIn(ctx context.Context, email string, password project.Secret) (project.User, error)
	ChangePassword(ctx context.Context, email string, old, password project.Secret) (project.User, error)
	User(ctx context.Context, email string) (project.User, error)
}

// document is a session as it is kept. UserSince ties it to the one user whom
// it was made for, and PasswordChanges to the password of then: it says nothing
// of a later user of that address, and ends when the password is changed.
type document struct {
	Email           string    `json:"email"`
	UserSince       time.Time `json:"user_since"`
	PasswordChanges int       `json:"password_changes,omitempty"`
	Began           time.Time `json:"began"`
	Seen            time.Time `json:"seen"`
}

// Sessions are everybody's sessions. It holds no state of its own beyond the
// bucket.
type Sessions struct {
	kv      jetstream.KeyValue
	users   Users
	members *Members
	now     func() time.Time
}

// Open opens the sessions, and the memberships that say what people may do.
func Open(ctx context.Context, js jetstream.JetStream, users Users, replicas int) (*Sessions, error) {
	kv, err := openBucket(ctx, js, sessionsBucket, Lifetime, replicas)
	if err != nil {
		return nil, err
	}
	members, err := openMembers(ctx, js, replicas)
	if err != nil {
		return nil, err
	}
	return &Sessions{kv: kv, users: users, members: members, now: time.Now}, nil
}

// Members are the memberships.
func (s *Sessions) Members() *Members { return s.members }

// tokenBytes of randomness are in a session's token.
const tokenBytes = 32

// Begin makes a session for somebody who just signed in. The token is what
// their browser keeps; of it only a digest is stored.
func (s *Sessions) Begin(ctx context.Context, user project.User) (token string, err error) {
	raw := make([]byte, tokenBytes)
	_, _ = rand.Read(raw) // never fails
	token = base64.RawURLEncoding.EncodeToString(raw)
	now := s.now().UTC()
	content, err := json.Marshal(document{user.Email, user.Created, user.PasswordChanges, now, now})
	if err != nil {
		return "", fmt.Errorf("session: %w", err)
	}
	if _, err := s.kv.Create(ctx, sessionKey(token), content); err != nil {
		return "", unavailable("begin a session", err)
	}
	return token, nil
}

// Person finds whose session the token is; ErrNone where it is nobody's, or no
// longer.
func (s *Sessions) Person(ctx context.Context, token string) (Person, error) {
	if base64.RawURLEncoding.DecodedLen(len(token)) != tokenBytes {
		return Person{}, ErrNone
	}
	entry, err := s.kv.Get(ctx, sessionKey(token))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return Person{}, ErrNone
	}
	if err != nil {
		return Person{}, unavailable("read a session", err)
	}
	var found document
	if err := json.Unmarshal(entry.Value(), &found); err != nil {
		return Person{}, fmt.Errorf("read a session: %w", err)
	}
	now := s.now().UTC()
	if now.Sub(found.Seen) > Idle || now.Sub(found.Began) > Lifetime {
		return Person{}, errors.Join(ErrNone, s.End(ctx, token))
	}
	user, err := s.owner(ctx, found)
	if err != nil {
		return Person{}, err
	}
	if now.Sub(found.Seen) > touchEvery {
		s.touch(ctx, entry, found, now)
	}
	projects, err := s.members.Of(ctx, user)
	return Person{user.Email, user.Role, projects}, err
}

// owner is the user as the record has them now.
func (s *Sessions) owner(ctx context.Context, found document) (project.User, error) {
	user, err := s.users.User(ctx, found.Email)
	if errors.Is(err, project.ErrNotFound) {
		return project.User{}, ErrNone
	}
	if err == nil && (!user.Created.Equal(found.UserSince) || user.PasswordChanges != found.PasswordChanges) {
		return project.User{}, ErrNone
	}
	return user, err
}

// touch notes that the session is in use. Where it fails, somebody else noted
// it, or ended the session, or the next request will.
func (s *Sessions) touch(ctx context.Context, entry jetstream.KeyValueEntry, found document, now time.Time) {
	found.Seen = now
	if content, err := json.Marshal(found); err == nil {
		_, _ = s.kv.Update(ctx, entry.Key(), content, entry.Revision())
	}
}

// End ends the session; nothing happens where there is none.
func (s *Sessions) End(ctx context.Context, token string) error {
	if err := s.kv.Purge(ctx, sessionKey(token)); err != nil {
		return unavailable("end a session", err)
	}
	return nil
}

// sessionKey is where the session of the token is kept.
func sessionKey(token string) string { return "session." + digest(token) }

func digest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}
