package session

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// NewSetupCode makes a code with which the first admin may be made, to be shown
// where only an operator looks. Each process has its own; all of them are good
// until the first admin is there, or a week has passed.
func (s *Sessions) NewSetupCode(ctx context.Context) (string, error) {
	code := rand.Text()
	if _, err := s.kv.Put(ctx, setupKey(code), []byte("{}")); err != nil {
		return "", unavailable("keep the set-up code", err)
	}
	return code, nil
}

// IsSetupCode tells whether the code is one that was made.
func (s *Sessions) IsSetupCode(ctx context.Context, code string) (bool, error) {
	_, err := s.kv.Get(ctx, setupKey(strings.ToUpper(strings.TrimSpace(code))))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return false, nil
	}
	if err != nil {
		return false, unavailable("look for the set-up code", err)
	}
	return true, nil
}

// setupKey is a digest, so that neither a look-up's time nor the bucket tells
// of a code.
func setupKey(code string) string { return "setup." + digest(code) }
