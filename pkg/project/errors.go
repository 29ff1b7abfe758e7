package project

import (
	"errors"
	"fmt"
)

// What callers branch on.
var (
	ErrNotFound     = errors.New("not found")
	ErrNameTaken    = errors.New("name is taken")
	ErrTokenTaken   = errors.New("token is in use elsewhere")
	ErrMalformed    = errors.New("malformed")     // refused by its form, without a look-up
	ErrUnknownToken = errors.New("unknown token") // never made, or revoked: nobody can tell which
	ErrUnknownKey   = errors.New("unknown API key")
	ErrCredentials  = errors.New("wrong e-mail address or password")
	ErrClosed       = errors.New("the first admin was made already")
	ErrLastAdmin    = errors.New("the last admin must stay one: make another first")
	ErrFull         = errors.New("there is room for no more: delete one that is not used")
	ErrNoKey        = errors.New("LOGBOOM_SECRET_KEY is missing, or not the one that it was sealed with")
	ErrBusy         = errors.New("too many passwords are looked at")
	ErrUnavailable  = errors.New("the system of record does not answer")
)

// InvalidError says which field of what somebody gave is wrong, and how.
type InvalidError struct {
	Field  string // as the JSON API or the configuration names it: name, webhook_url, Defaults.rate
	Reason string // what is allowed
}

func (e *InvalidError) Error() string { return e.Field + ": " + e.Reason }

// unavailable wraps an engine's error so that callers see ErrUnavailable and
// logs see the cause.
func unavailable(doing string, err error) error {
	return fmt.Errorf("%s: %w: %w", doing, ErrUnavailable, err)
}
