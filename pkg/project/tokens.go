package project

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Token is what is known of a token once its value was shown.
type Token struct {
	ID        string    `json:"id"` // 32 hexadecimal digits
	Name      string    `json:"name"`
	Last4     string    `json:"last4"`
	Created   time.Time `json:"created"`
	Project   string    `json:"project"`
	ProjectID string    `json:"project_id"`

	// LastUsed is right to within some minutes, and zero where it is not known.
	// Only Tokens tells it.
	LastUsed time.Time `json:"last_used,omitzero"`
}

// tokenDocument is a token in the record. The project's ID ties it to the one
// project that it was made for: it says nothing to a later one of that name.
type tokenDocument struct {
	Token
	Hash string `json:"hash"` // the Digest in hexadecimal
}

const tokenKeys = "token."

func tokenKey(id TokenID) string { return tokenKeys + id.String() }

// CreateToken makes a token for the project. The secret is its value, which
// nobody can ask for again. ErrFull where the project has 1000.
func (s *Store) CreateToken(ctx context.Context, project, name string) (Token, Secret, error) {
	value := NewToken()
	t, err := s.AddToken(ctx, project, name, value)
	if err != nil {
		return Token{}, Secret{}, err
	}
	return t, value, nil
}

// AddToken gives the project a token whose value the caller brings, such as the
// one in a bootstrap setting. Adding it to the same project again changes
// nothing; ErrTokenTaken where another project has it.
func (s *Store) AddToken(ctx context.Context, project, name string, value Secret) (Token, error) {
	d, err := ParseToken(value.Reveal())
	if err != nil {
		return Token{}, fmt.Errorf("token: %w", err)
	}
	if err := checkLabel(name); err != nil {
		return Token{}, err
	}
	p, err := s.Project(ctx, project)
	if err != nil {
		return Token{}, err
	}
	t := Token{
		ID:        d.ID().String(),
		Name:      name,
		Last4:     last4(value.Reveal()),
		Created:   now(),
		Project:   p.Name,
		ProjectID: p.ID,
	}
	return s.addToken(ctx, tokenDocument{t, hex.EncodeToString(d[:])}, d.ID())
}

func (s *Store) addToken(ctx context.Context, t tokenDocument, id TokenID) (Token, error) {
	revision, err := s.projects.create(ctx, tokenKey(id), t)
	if errors.Is(err, errExists) {
		return s.readdToken(ctx, t, id)
	}
	if err != nil {
		return Token{}, err
	}
	return s.keepToken(ctx, t, id, revision)
}

// readdToken decides what adding a token means that is there: nothing for its
// own project, taking it over from a project that is gone, and else no.
func (s *Store) readdToken(ctx context.Context, t tokenDocument, id TokenID) (Token, error) {
	var old tokenDocument
	revision, err := s.projects.read(ctx, tokenKey(id), &old)
	if err != nil {
		return Token{}, err
	}
	if old.ProjectID == t.ProjectID {
		return old.Token, nil
	}
	p, err := s.Project(ctx, old.Project)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return Token{}, err
	}
	if err == nil && p.ID == old.ProjectID {
		return Token{}, fmt.Errorf("token %s: %w", t.Last4, ErrTokenTaken)
	}
	revision, err = s.projects.swap(ctx, tokenKey(id), t, revision)
	if err != nil {
		return Token{}, err
	}
	return s.keepToken(ctx, t, id, revision)
}

// keepToken gives a token back that was just made, unless its project was
// deleted meanwhile or has too many: then it goes again. That is found out
// afterwards, since no check before could see those who make one at the same
// time.
func (s *Store) keepToken(ctx context.Context, t tokenDocument, id TokenID, revision uint64) (Token, error) {
	reason := s.rejection(ctx, t, revision)
	if reason == nil {
		return t.Token, nil
	}
	if err := s.removeToken(ctx, id, t.ProjectID); err != nil && !errors.Is(err, ErrNotFound) {
		return Token{}, err
	}
	return Token{}, fmt.Errorf("project %s: %w", t.Project, reason)
}

// rejection tells why a token that was made cannot stay, which is also that
// nobody can count the others. It reads all tokens of all projects, as Tokens
// does.
func (s *Store) rejection(ctx context.Context, t tokenDocument, revision uint64) error {
	alive, err := s.isAlive(ctx, t.ProjectID)
	if err == nil && !alive {
		return ErrNotFound
	}
	older, err := s.projects.before(ctx, tokenKeys+"*", revision, func(entry jetstream.KeyValueEntry) bool {
		owner, err := tokenOwner(entry)
		return err == nil && owner == t.ProjectID
	})
	if err == nil && older >= s.maxTokens {
		err = fmt.Errorf("it has %d tokens: %w", older, ErrFull)
	}
	return err
}

// Tokens lists the project's tokens, the oldest first, at most 1000 with when
// each was last used. It reads all tokens of
// all projects, which suits a page that people look at (measured: 10,000 in 0.07 s).
func (s *Store) Tokens(ctx context.Context, project string) ([]Token, error) {
	p, err := s.Project(ctx, project)
	if err != nil {
		return nil, err
	}
	found, err := s.tokensOf(ctx, p.ID)
	if err != nil {
		return nil, err
	}
	list := sorted(found, func(a, b Token) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	if err := s.markUsed(ctx, p.ID, list); err != nil {
		return nil, err
	}
	return list, nil
}

func (s *Store) tokensOf(ctx context.Context, projectID string) (map[string]Token, error) {
	found := map[string]Token{}
	err := s.projects.scan(ctx, tokenKeys+"*", func(entry jetstream.KeyValueEntry) error {
		var t Token
		if err := json.Unmarshal(entry.Value(), &t); err != nil {
			return fmt.Errorf("read %s: %w", entry.Key(), err)
		}
		if t.ProjectID == projectID {
			found[t.ID] = t
		}
		return nil
	})
	return found, err
}

// DeleteToken revokes the project's token by its ID; ErrNotFound where the
// project has no such token. Every Cache refuses it within 2 s.
func (s *Store) DeleteToken(ctx context.Context, project, id string) error {
	p, err := s.Project(ctx, project)
	if err != nil {
		return err
	}
	parsed, err := ParseTokenID(id)
	if err != nil {
		return fmt.Errorf("token: %w", err)
	}
	return s.removeToken(ctx, parsed, p.ID)
}

func (s *Store) removeToken(ctx context.Context, id TokenID, projectID string) error {
	for range changeAttempts {
		var t tokenDocument
		revision, err := s.projects.read(ctx, tokenKey(id), &t)
		if errors.Is(err, ErrNotFound) || err == nil && t.ProjectID != projectID {
			return fmt.Errorf("token %s: %w", id, ErrNotFound)
		}
		if err != nil {
			return err
		}
		err = s.projects.remove(ctx, tokenKey(id), revision)
		if !errors.Is(err, errSwapped) {
			return err
		}
	}
	return fmt.Errorf("token %s: %w: others change it without pause", id, ErrUnavailable)
}

// removeTokens clears away the tokens of a project that is gone. Where it is
// cut short, what is left behind opens nothing.
func (s *Store) removeTokens(ctx context.Context, projectID string) error {
	found, err := s.tokensOf(ctx, projectID)
	if err != nil {
		return err
	}
	for text := range found {
		id, err := ParseTokenID(text)
		if err != nil {
			continue // written by hand: no token has such an ID
		}
		if err := s.removeToken(ctx, id, projectID); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	return nil
}
