package people

import (
	"context"
	"fmt"

	"github.com/alexedwards/argon2id"

	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/secret"
)

// The cost of one password: 19 MiB and two passes, OWASP's minimum for argon2id.
// maxHashing bounds the memory of a flood of sign-ins, which includes what the
// garbage collector has not collected yet: 122 MiB with two at once (measured),
// 213 MiB with four.
const (
	passwordKiB    = 19 * 1024
	passwordPasses = 2
	maxHashing     = 2
)

const (
	minPasswordLen = 8
	maxPasswordLen = 1024
)

// unknownUserHash costs as much to compare as the hash of a real password, and
// no password matches it. An unknown user's password is compared with it, so
// that the answer takes the same time.
const unknownUserHash = "$argon2id$v=19$m=19456,t=2,p=1$bG9nYm9vbS1kdW1teS1zYQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// passwords hashes and compares passwords, a few at a time.
type passwords struct {
	hashing chan struct{} // capacity: how many may be hashed at once
}

func newPasswords() *passwords {
	return &passwords{hashing: make(chan struct{}, maxHashing)}
}

func checkPassword(password secret.Value) error {
	if n := len(password.Reveal()); n < minPasswordLen || n > maxPasswordLen {
		return &project.InvalidError{Field: "password", Reason: fmt.Sprintf("must be %d to %d bytes long", minPasswordLen, maxPasswordLen)}
	}
	return nil
}

// hash returns the text to store for a password, in argon2id's usual form with
// its salt and cost.
func (p *passwords) hash(ctx context.Context, password secret.Value) (string, error) {
	if err := checkPassword(password); err != nil {
		return "", err
	}
	if err := p.acquire(ctx); err != nil {
		return "", err
	}
	defer p.release()
	return argon2id.CreateHash(password.Reveal(), &argon2id.Params{
		Memory:      passwordKiB,
		Iterations:  passwordPasses,
		Parallelism: 1,
		SaltLength:  16,
		KeyLength:   32,
	})
}

// match reports whether the hash is that of the password.
func (p *passwords) match(ctx context.Context, password secret.Value, hash string) (bool, error) {
	if len(password.Reveal()) > maxPasswordLen {
		return false, nil // no password is as long, and hashing it would cost by its length
	}
	if err := p.acquire(ctx); err != nil {
		return false, err
	}
	defer p.release()
	return argon2id.ComparePasswordAndHash(password.Reveal(), hash)
}

func (p *passwords) acquire(ctx context.Context) error {
	select {
	case p.hashing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait to hash a password: %w: %w", ErrBusy, ctx.Err())
	}
}

func (p *passwords) release() { <-p.hashing }
