package project

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/alexedwards/argon2id"
)

// The cost of one password: 19 MiB and two passes, OWASP's least for argon2id.
// Four at once hold 76 MiB. What they leave behind is collected after every
// second one: left to its usual pace, the collector lets a flood of sign-ins
// take over 200 MiB (measured: 213 MiB, and 140 MiB with it).
const (
	passwordKiB    = 19 * 1024
	passwordPasses = 2
	passwordTurns  = 4
	collectEvery   = 2
)

const (
	minPasswordLen = 8
	maxPasswordLen = 1024
)

// unknownUserHash is a hash of nothing, of the same cost as a real one: an
// unknown user's password is tried on it, so that the answer takes as long.
const unknownUserHash = "$argon2id$v=19$m=19456,t=2,p=1$bG9nYm9vbS1kdW1teS1zYQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// passwords hashes and compares passwords, few at a time.
type passwords struct {
	turns  chan struct{} // capacity: how many may be hashed at once
	hashed atomic.Uint32
}

func newPasswords() *passwords {
	return &passwords{turns: make(chan struct{}, passwordTurns)}
}

func checkPassword(password Secret) error {
	if n := len(password.Reveal()); n < minPasswordLen || n > maxPasswordLen {
		return &InvalidError{"password", fmt.Sprintf("must be %d to %d bytes long", minPasswordLen, maxPasswordLen)}
	}
	return nil
}

// hash makes the text to keep of a password: argon2id's usual form, with its
// salt and cost.
func (p *passwords) hash(ctx context.Context, password Secret) (string, error) {
	if err := checkPassword(password); err != nil {
		return "", err
	}
	if err := p.wait(ctx); err != nil {
		return "", err
	}
	defer p.leave()
	return argon2id.CreateHash(password.Reveal(), &argon2id.Params{
		Memory:      passwordKiB,
		Iterations:  passwordPasses,
		Parallelism: 1,
		SaltLength:  16,
		KeyLength:   32,
	})
}

// match tells whether the hash is the password's.
func (p *passwords) match(ctx context.Context, password Secret, hash string) (bool, error) {
	if len(password.Reveal()) > maxPasswordLen {
		return false, nil // nobody has such a password, and hashing it would cost by its length
	}
	if err := p.wait(ctx); err != nil {
		return false, err
	}
	defer p.leave()
	return argon2id.ComparePasswordAndHash(password.Reveal(), hash)
}

func (p *passwords) wait(ctx context.Context) error {
	select {
	case p.turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for a turn to hash a password: %w: %w", ErrBusy, ctx.Err())
	}
}

// leave ends a turn, and holds it while the memory of the newest is collected.
func (p *passwords) leave() {
	if p.hashed.Add(1)%collectEvery == 0 {
		runtime.GC()
	}
	<-p.turns
}
