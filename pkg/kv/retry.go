package kv

import (
	"context"
	"errors"
	"fmt"
)

// Load reads a key, decodes its value into v and returns its revision. With
// ErrNotFound the revision is 0, as Swap expects it.
func (b *Bucket) Load(ctx context.Context, key string, v any) (revision uint64, err error) {
	entry, err := b.Get(ctx, key)
	if err != nil {
		return 0, err
	}
	return entry.Revision, entry.Decode(v)
}

// maxRetries bounds how often Retry starts a change again.
const maxRetries = 10

// Retry calls change, which reads a key and writes it with the revision that it
// read, until it does not fail with ErrChanged. The name says in an error what
// could not be changed.
func Retry(name string, change func() error) error {
	for range maxRetries {
		err := change()
		if !errors.Is(err, ErrChanged) {
			return err
		}
	}
	return fmt.Errorf("%s: %w: other writers changed it %d times in a row", name, ErrUnavailable, maxRetries)
}
