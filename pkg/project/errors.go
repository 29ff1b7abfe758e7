package project

import (
	"errors"

	"github.com/logboom/logboom/pkg/kv"
)

// Errors that callers branch on. Packages token and people return them too.
var (
	ErrNotFound    = kv.ErrNotFound
	ErrUnavailable = kv.ErrUnavailable
	ErrNameTaken   = errors.New("name is taken")
	ErrFull        = errors.New("no more can be created: delete one that is not used")
	ErrNoKey       = errors.New("LOGBOOM_SECRET_KEY is missing, or is not the key that encrypted this")
)

// InvalidError names the field that a caller filled in wrongly and says what is
// allowed there.
type InvalidError struct {
	Field  string // as the JSON API or the configuration names it: name, webhook_url, Defaults.rate
	Reason string // what is allowed
}

func (e *InvalidError) Error() string { return e.Field + ": " + e.Reason }
