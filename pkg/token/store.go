package token

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/kv"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/secret"
)

// Errors that callers branch on, beside those of package project. ErrUnknown
// does not say whether the token ever existed.
var (
	ErrMalformed = secret.ErrMalformed // refused by its form, without a lookup
	ErrUnknown   = errors.New("unknown token")
	ErrTaken     = errors.New("the token belongs to another project")
)

// Prefix begins every token.
const Prefix = "lgb_"

// New returns a new random token, which no project knows yet.
func New() secret.Value { return secret.Generate(Prefix) }

// Parse checks a token's form and checksum and returns its digest. It neither
// allocates nor looks anything up. The error is ErrMalformed and does not
// contain the token.
func Parse(text string) (secret.Digest, error) { return secret.Parse(Prefix, text) }

// Token is what remains known about a token after its value was shown.
type Token struct {
	ID        string    `json:"id"` // 32 hexadecimal digits
	Name      string    `json:"name"`
	Last4     string    `json:"last4"`
	Created   time.Time `json:"created"`
	Project   string    `json:"project"`
	ProjectID string    `json:"project_id"`

	// LastUsed is accurate to ten minutes, and zero if the token was never used.
	// Only Tokens fills it in.
	LastUsed time.Time `json:"last_used,omitzero"`
}

// document is how a token is stored. The project's ID binds it to one project: a
// later project with the same name does not accept it.
type document struct {
	Token
	Hash string `json:"hash"` // the digest in hexadecimal
}

const tokenKeys = "token."

func tokenKey(id secret.ID) string { return tokenKeys + id.String() }

// A token is found by its ID alone, which is its key. Which tokens a project has
// is stored beside it, in one key without a value for each token,
// own.<project ID>.<token ID>. So listing a project's tokens costs the same
// whatever other projects have.
//
// The listing is created before the token and deleted after it. A token that is
// accepted is therefore always listed and can be revoked. If a process dies in
// between, a listing without a token stays; it is ignored, and Sweep deletes it.
const listingKeys = "own."

// listing is the value of such a key.
type listing struct{}

func listingKey(projectID string, id secret.ID) string {
	return listingKeys + project.IDToKey(projectID) + "." + id.String()
}

// parseListingKey is the inverse of listingKey. It returns false for a key that
// Store did not create.
func parseListingKey(key string) (projectID string, id secret.ID, ok bool) {
	owner, text, _ := strings.Cut(strings.TrimPrefix(key, listingKeys), ".")
	id, err := secret.ParseID(text)
	return project.IDFromKey(owner), id, err == nil
}

// The bounds of a project's tokens and of the bucket USES.
const (
	maxTokens = 1000
	usesBytes = 16 << 20
)

// abandonedAge is how old a listing without a token is when Sweep deletes it. A
// newer one may belong to a token that is being created.
const abandonedAge = time.Hour

// Store creates, lists and deletes tokens. All methods may be called at once, in
// any number of processes. Their errors wrap project.ErrUnavailable where a
// bucket does not answer.
type Store struct {
	projects *project.Store
	bucket   *kv.Bucket // of the projects
	uses     *kv.Bucket

	maxTokens    int           // of one project; less in tests
	abandonedAge time.Duration // as the constant; less in tests
}

// Open opens the tokens of the projects. It creates the bucket USES if it is
// missing, with so many replicas.
func Open(ctx context.Context, js jetstream.JetStream, projects *project.Store, replicas int) (*Store, error) {
	uses, err := kv.Open(ctx, js, kv.Config{Name: "USES", History: 1, MaxBytes: usesBytes, Replicas: replicas})
	if err != nil {
		return nil, err
	}
	return &Store{projects: projects, bucket: projects.Bucket(), uses: uses, maxTokens: maxTokens, abandonedAge: abandonedAge}, nil
}

// CreateToken creates a token for the project and returns its value, which
// cannot be shown again. project.ErrFull means that the project has 1000.
func (s *Store) CreateToken(ctx context.Context, projectName, name string) (Token, secret.Value, error) {
	value := New()
	t, err := s.AddToken(ctx, projectName, name, value)
	if err != nil {
		return Token{}, secret.Value{}, err
	}
	return t, value, nil
}

// AddToken adds a token whose value the caller chose, such as the one in a
// bootstrap setting. It changes nothing if the project has the token already,
// and fails with ErrTaken if another project has it.
func (s *Store) AddToken(ctx context.Context, projectName, name string, value secret.Value) (Token, error) {
	digest, err := Parse(value.Reveal())
	if err != nil {
		return Token{}, fmt.Errorf("token: %w", err)
	}
	if err := project.CheckLabel(name); err != nil {
		return Token{}, err
	}
	p, err := s.projects.Project(ctx, projectName)
	if err != nil {
		return Token{}, err
	}
	t := document{
		Token: Token{
			ID:        digest.ID().String(),
			Name:      name,
			Last4:     secret.Last4(value.Reveal()),
			Created:   time.Now().UTC(),
			Project:   p.Name,
			ProjectID: p.ID,
		},
		Hash: digest.String(),
	}
	listed, err := s.list(ctx, p.ID, digest.ID())
	if err != nil {
		return Token{}, fmt.Errorf("project %s: %w", p.Name, err)
	}
	added, err := s.insert(ctx, t, digest.ID())
	if listed != 0 && (errors.Is(err, ErrTaken) || errors.Is(err, project.ErrNotFound)) {
		_ = s.bucket.Delete(ctx, listingKey(p.ID, digest.ID()), listed) // if it fails, Sweep deletes it
	}
	return added, err
}

// list adds a token to its project's list and returns the listing's revision, or
// 0 if it was listed before. It fails with project.ErrFull if the project has
// too many tokens: each of several callers counts the listings before its own.
func (s *Store) list(ctx context.Context, projectID string, id secret.ID) (revision uint64, err error) {
	key := listingKey(projectID, id)
	revision, err = s.bucket.Create(ctx, key, listing{})
	if errors.Is(err, kv.ErrExists) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	entries, err := s.bucket.List(ctx, listingKeys+project.IDToKey(projectID)+".*")
	older := 0
	for _, entry := range entries {
		if entry.Revision < revision {
			older++
		}
	}
	if err == nil && older >= s.maxTokens {
		err = fmt.Errorf("it has %d tokens: %w", older, project.ErrFull)
	}
	if err != nil {
		return 0, errors.Join(err, s.bucket.Delete(ctx, key, revision))
	}
	return revision, nil
}

// insert stores a token. One that is stored already stays as it is if it belongs
// to the same project, is replaced if its project was deleted, and otherwise
// leads to ErrTaken.
func (s *Store) insert(ctx context.Context, t document, id secret.ID) (Token, error) {
	stored := t
	err := kv.Retry("token "+t.Last4, func() error {
		var old document
		revision, err := s.bucket.Load(ctx, tokenKey(id), &old)
		if err != nil && !errors.Is(err, kv.ErrNotFound) {
			return err
		}
		if revision != 0 && old.ProjectID == t.ProjectID {
			stored = old
			return nil
		}
		if revision != 0 {
			taken, err := s.projects.Exists(ctx, old.ProjectID)
			if err != nil {
				return err
			}
			if taken {
				return fmt.Errorf("token %s: %w", t.Last4, ErrTaken)
			}
		}
		stored = t
		_, err = s.bucket.Swap(ctx, tokenKey(id), t, revision)
		return err
	})
	if err != nil {
		return Token{}, err
	}
	return s.confirm(ctx, stored, id)
}

// confirm returns the token that was just stored, unless its project was deleted
// at the same time: then confirm deletes the token, since the deletion of the
// project may have listed the tokens before this one was stored.
func (s *Store) confirm(ctx context.Context, t document, id secret.ID) (Token, error) {
	exists, err := s.projects.Exists(ctx, t.ProjectID)
	if err == nil && exists {
		return t.Token, nil
	}
	if err == nil {
		err = project.ErrNotFound
	}
	if removeErr := s.remove(ctx, id, t.ProjectID); removeErr != nil && !errors.Is(removeErr, project.ErrNotFound) {
		return Token{}, removeErr
	}
	return Token{}, fmt.Errorf("project %s: %w", t.Project, err)
}

// Tokens lists the project's tokens, the oldest first, with the time of their
// last use. There are at most 1000.
func (s *Store) Tokens(ctx context.Context, projectName string) ([]Token, error) {
	p, err := s.projects.Project(ctx, projectName)
	if err != nil {
		return nil, err
	}
	ids, err := s.listed(ctx, p.ID)
	if err != nil {
		return nil, err
	}
	list := make([]Token, 0, len(ids))
	for _, id := range ids {
		var t Token
		_, err := s.bucket.Load(ctx, tokenKey(id), &t)
		if errors.Is(err, kv.ErrNotFound) || err == nil && t.ProjectID != p.ID {
			continue // it is being created, or was deleted
		}
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b Token) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	return list, s.fillLastUsed(ctx, p.ID, list)
}

// listed returns the IDs of the project's tokens, and of some that no longer
// exist.
func (s *Store) listed(ctx context.Context, projectID string) ([]secret.ID, error) {
	entries, err := s.bucket.List(ctx, listingKeys+project.IDToKey(projectID)+".*")
	if err != nil {
		return nil, err
	}
	var ids []secret.ID
	for _, entry := range entries {
		if _, id, ok := parseListingKey(entry.Key); ok {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// DeleteToken revokes the project's token with the ID. It fails with
// project.ErrNotFound if the project has no such token. Every Cache refuses the
// token within 2 s.
func (s *Store) DeleteToken(ctx context.Context, projectName, id string) error {
	p, err := s.projects.Project(ctx, projectName)
	if err != nil {
		return err
	}
	parsed, err := secret.ParseID(id)
	if err != nil {
		return fmt.Errorf("token: %w", project.ErrNotFound) // no token has such an ID
	}
	return s.remove(ctx, parsed, p.ID)
}

// DeleteTokens deletes all tokens of a project that was deleted, and the times
// of their last use. Until then they are refused like deleted ones. If it fails,
// Sweep deletes the rest.
func (s *Store) DeleteTokens(ctx context.Context, projectID string) error {
	ids, err := s.listed(ctx, projectID)
	if err != nil {
		return err
	}
	for _, id := range ids {
		err := s.remove(ctx, id, projectID)
		if errors.Is(err, project.ErrNotFound) {
			err = s.bucket.Delete(ctx, listingKey(projectID, id), 0) // only its listing was left
		}
		if err != nil {
			return err
		}
	}
	entry, err := s.uses.Get(ctx, usesKey(projectID))
	if errors.Is(err, kv.ErrNotFound) {
		return nil // a deletion would leave a mark of its own
	}
	if err != nil {
		return err
	}
	return deleteUnchanged(ctx, s.uses, entry)
}

// remove deletes the project's token and then its listing.
func (s *Store) remove(ctx context.Context, id secret.ID, projectID string) error {
	err := kv.Retry("token "+id.String(), func() error {
		var t Token
		revision, err := s.bucket.Load(ctx, tokenKey(id), &t)
		if errors.Is(err, kv.ErrNotFound) || err == nil && t.ProjectID != projectID {
			return fmt.Errorf("token %s: %w", id, project.ErrNotFound)
		}
		if err != nil {
			return err
		}
		return s.bucket.Delete(ctx, tokenKey(id), revision)
	})
	if err == nil {
		_ = s.bucket.Delete(ctx, listingKey(projectID, id), 0) // if it fails, Sweep deletes it
	}
	return err
}

// Swept counts what Sweep deleted.
type Swept struct {
	Tokens int
	Uses   int // of projects: when their tokens were last used
}

// Sweep deletes the tokens of projects that no longer exist, which a deletion
// that was interrupted leaves behind, and makes the lists of tokens agree with
// the tokens. What it deletes was no longer accepted; it only used space. It may
// run beside everything else: the ID of a deleted project is never used again.
func (s *Store) Sweep(ctx context.Context) (swept Swept, err error) {
	exists, err := s.projects.Survivors(ctx)
	if err != nil {
		return swept, err
	}
	if swept.Uses, err = s.sweepUses(ctx, exists); err != nil {
		return swept, err
	}
	// The lists are read before the tokens: a token is listed before it is stored.
	listings, err := s.bucket.List(ctx, listingKeys+"*.*")
	if err != nil {
		return swept, err
	}
	tokens, err := s.bucket.List(ctx, tokenKeys+"*")
	if err != nil {
		return swept, err
	}
	unlisted := map[string]bool{} // the listing keys of all tokens, and then of those without a listing
	for _, entry := range tokens {
		var t Token
		if err := entry.Decode(&t); err != nil {
			return swept, err
		}
		found, err := exists(t.ProjectID)
		if err != nil {
			return swept, err
		}
		if id, err := secret.ParseID(t.ID); found && err == nil {
			unlisted[listingKey(t.ProjectID, id)] = true
		}
		if !found {
			if err := deleteUnchanged(ctx, s.bucket, entry); err != nil {
				return swept, err
			}
			swept.Tokens++
		}
	}
	for _, entry := range listings {
		projectID, _, _ := parseListingKey(entry.Key)
		found, err := exists(projectID)
		if err != nil {
			return swept, err
		}
		abandoned := !unlisted[entry.Key] && time.Since(entry.Time) >= s.abandonedAge
		delete(unlisted, entry.Key)
		if found && !abandoned {
			continue
		}
		if err := deleteUnchanged(ctx, s.bucket, entry); err != nil {
			return swept, err
		}
	}
	for key := range unlisted {
		if _, err := s.bucket.Create(ctx, key, listing{}); err != nil && !errors.Is(err, kv.ErrExists) {
			return swept, err
		}
	}
	return swept, nil
}

func (s *Store) sweepUses(ctx context.Context, exists func(projectID string) (bool, error)) (swept int, err error) {
	entries, err := s.uses.List(ctx, useKeys+"*")
	if err != nil {
		return 0, err
	}
	for _, entry := range entries {
		found, err := exists(project.IDFromKey(strings.TrimPrefix(entry.Key, useKeys)))
		if err != nil {
			return swept, err
		}
		if found {
			continue
		}
		if err := deleteUnchanged(ctx, s.uses, entry); err != nil {
			return swept, err
		}
		swept++
	}
	return swept, nil
}

// deleteUnchanged deletes an entry unless it was changed since it was read: then
// the next sweep decides about it.
func deleteUnchanged(ctx context.Context, bucket *kv.Bucket, entry kv.Entry) error {
	err := bucket.Delete(ctx, entry.Key, entry.Revision)
	if errors.Is(err, kv.ErrChanged) {
		return nil
	}
	return err
}

// Identity is the project that a token belongs to, and what ingest needs to know
// about it for each request.
type Identity struct {
	ProjectID     string
	ProjectName   string
	TokenID       string
	TokenName     string
	RetentionDays uint16
	OnQuota       string         // project.OnQuotaDrop or project.OnQuotaRefuse
	StderrAs      string         // a severity word in lower case, or empty
	Quotas        project.Quotas // with the installation's defaults filled in
}

// grant is what is stored about a token and its project. Processes share grants
// and not identities: each process fills in its own default quotas, so that new
// defaults count from a process's start on.
type grant struct {
	ProjectID   string           `json:"project_id"`
	ProjectName string           `json:"project"`
	TokenID     string           `json:"token_id"`
	TokenName   string           `json:"token"`
	Settings    project.Settings `json:"settings"`
}

func (g *grant) identity(defaults project.Quotas) Identity {
	return Identity{
		ProjectID:     g.ProjectID,
		ProjectName:   g.ProjectName,
		TokenID:       g.TokenID,
		TokenName:     g.TokenName,
		RetentionDays: g.Settings.RetentionDays,
		OnQuota:       g.Settings.OnQuota,
		StderrAs:      g.Settings.StderrAs,
		Quotas:        g.Settings.Quotas(defaults),
	}
}

// find reads what the token with the digest grants, or returns ErrUnknown.
func (s *Store) find(ctx context.Context, digest secret.Digest) (grant, error) {
	var t document
	_, err := s.bucket.Load(ctx, tokenKey(digest.ID()), &t)
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return grant{}, err
	}
	if !digest.Matches(t.Hash) { // also compares if there is no token, with an empty hash
		return grant{}, ErrUnknown
	}
	p, err := s.projects.Project(ctx, t.Project)
	if errors.Is(err, project.ErrNotFound) || err == nil && p.ID != t.ProjectID {
		return grant{}, ErrUnknown
	}
	if err != nil {
		return grant{}, err
	}
	return grant{p.ID, p.Name, t.ID, t.Name, p.Settings}, nil
}
