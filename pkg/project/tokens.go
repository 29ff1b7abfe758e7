package project

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Token is what is known of a token once its value was shown.
type Token struct {
	ID        string    `json:"id"` // 32 hexadecimal digits
	Name      string    `json:"name"`
	Last4     string    `json:"last4"`
	Created   time.Time `json:"created"`
	Project   string    `json:"project"`
	ProjectID string    `json:"project_id"`

	// LastUsed is right to within ten minutes, and zero where it is not known.
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

// addToken lists the token and then makes it.
func (s *Store) addToken(ctx context.Context, t tokenDocument, id TokenID) (Token, error) {
	fresh, err := s.list(ctx, t.ProjectID, id)
	if err != nil {
		return Token{}, fmt.Errorf("project %s: %w", t.Project, err)
	}
	made, err := s.makeToken(ctx, t, id)
	if fresh != 0 && isRefusal(err) {
		_ = s.projects.remove(ctx, ownKey(t.ProjectID, id), fresh) // of no interest, as unlist's
	}
	return made, err
}

// isRefusal tells an error after which the token is not there for certain.
func isRefusal(err error) bool {
	return errors.Is(err, ErrTokenTaken) || errors.Is(err, ErrNotFound)
}

func (s *Store) makeToken(ctx context.Context, t tokenDocument, id TokenID) (Token, error) {
	_, err := s.projects.create(ctx, tokenKey(id), t)
	if errors.Is(err, errExists) {
		return s.readdToken(ctx, t, id)
	}
	if err != nil {
		return Token{}, err
	}
	return s.keepToken(ctx, t, id)
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
	if _, err = s.projects.swap(ctx, tokenKey(id), t, revision); err != nil {
		return Token{}, err
	}
	return s.keepToken(ctx, t, id)
}

// keepToken gives a token back that was just made, unless its project was
// deleted meanwhile: then it goes again. That is found out afterwards, since a
// deletion that lists the tokens before this one is made does not see it.
func (s *Store) keepToken(ctx context.Context, t tokenDocument, id TokenID) (Token, error) {
	alive, err := s.isAlive(ctx, t.ProjectID)
	if err == nil && alive {
		return t.Token, nil
	}
	if err == nil {
		err = ErrNotFound
	}
	if gone := s.removeToken(ctx, id, t.ProjectID); gone != nil && !errors.Is(gone, ErrNotFound) {
		return Token{}, gone
	}
	return Token{}, fmt.Errorf("project %s: %w", t.Project, err)
}

// Tokens lists the project's tokens, the oldest first, at most 1000 with when
// each was last used.
func (s *Store) Tokens(ctx context.Context, project string) ([]Token, error) {
	p, err := s.Project(ctx, project)
	if err != nil {
		return nil, err
	}
	list, err := s.tokensOf(ctx, p.ID)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b Token) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	if err := s.markUsed(ctx, p.ID, list); err != nil {
		return nil, err
	}
	return list, nil
}

// tokensOf reads the tokens that the project has on its list.
func (s *Store) tokensOf(ctx context.Context, projectID string) ([]Token, error) {
	ids, err := s.listed(ctx, projectID)
	if err != nil {
		return nil, err
	}
	found := make([]Token, 0, len(ids))
	for id := range ids {
		var t Token
		_, err := s.projects.read(ctx, tokenKey(id), &t)
		if errors.Is(err, ErrNotFound) || err == nil && t.ProjectID != projectID {
			continue // it is being made, or was removed
		}
		if err != nil {
			return nil, err
		}
		found = append(found, t)
	}
	return found, nil
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

// removeToken removes the project's token, and then takes it off the list.
func (s *Store) removeToken(ctx context.Context, id TokenID, projectID string) error {
	err := s.revoke(ctx, id, projectID)
	if err == nil {
		s.unlist(ctx, projectID, id)
	}
	return err
}

func (s *Store) revoke(ctx context.Context, id TokenID, projectID string) error {
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
	ids, err := s.listed(ctx, projectID)
	if err != nil {
		return err
	}
	for id := range ids {
		if err := s.revoke(ctx, id, projectID); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		s.unlist(ctx, projectID, id)
	}
	return nil
}
