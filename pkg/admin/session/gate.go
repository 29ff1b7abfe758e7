package session

import (
	"context"
	"strings"

	"github.com/logboom/logboom/pkg/project"
)

// maxAccount bounds what is counted of an address that somebody typed.
const maxAccount = 254

// Gate lets people in by their password, few at a time.
type Gate struct {
	users Users
	tries *limiter
}

// NewGate makes a gate for the users.
func NewGate(users Users) *Gate {
	return &Gate{users: users, tries: newLimiter()}
}

// SignIn finds the user whose address and password these are. The errors are
// project.ErrCredentials, which never says which of them is wrong, and a
// ThrottledError. Only what fails is counted, by account and by the address of
// the connection's other end.
func (g *Gate) SignIn(ctx context.Context, email string, password project.Secret, address string) (project.User, error) {
	return g.counting(email, address, func() (project.User, error) { return g.users.SignIn(ctx, email, password) })
}

// ChangePassword gives a user a new password in place of the old one. Its tries
// are SignIn's, so that a stolen session does not help to guess.
func (g *Gate) ChangePassword(ctx context.Context, email string, old, password project.Secret, address string) (project.User, error) {
	return g.counting(email, address, func() (project.User, error) { return g.users.ChangePassword(ctx, email, old, password) })
}

// counting lets a password be looked at where there were few tries, and counts
// the one that was not a good one.
func (g *Gate) counting(email, address string, look func() (project.User, error)) (project.User, error) {
	account := "for " + accountOf(email)
	if err := g.Try(address); err != nil {
		return project.User{}, err
	}
	if err := g.tries.take(account, triesPerAccount); err != nil {
		return project.User{}, err
	}
	user, err := look()
	if err == nil {
		g.Passed(address)
		g.tries.giveBack(account)
	}
	return user, err
}

// Try counts one try of another kind from the address, such as a set-up code.
func (g *Gate) Try(address string) error {
	return g.tries.take("from "+network(address), triesPerAddress)
}

// Passed takes back the newest try from the address: it was a good one.
func (g *Gate) Passed(address string) { g.tries.giveBack("from " + network(address)) }

// accountOf is the one spelling under which an account is counted, also one
// that there is not.
func accountOf(email string) string {
	email = strings.ToLower(strings.TrimSpace(email))
	return email[:min(len(email), maxAccount)]
}
