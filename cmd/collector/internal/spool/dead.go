package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// deadFolder holds the batches that were refused for good.
const deadFolder = "dead"

// maxDead bounds the dead letters, in files; the oldest goes first.
const maxDead = 16

// Bury keeps the body of a batch that was refused for good, for somebody to
// look at. It is best effort: the batch is lost for Logboom either way.
func (d *Depot) Bury(id string, body []byte) error {
	folder := filepath.Join(d.cfg.Dir, deadFolder)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("dead letter: %w", err)
	}
	err := os.WriteFile(filepath.Join(folder, id+".json"), body, 0o600)
	if err != nil {
		return fmt.Errorf("dead letter: %w", err)
	}
	return d.exhume(folder)
}

// exhume removes the oldest dead letters above the bound. Ids begin with the
// time, so the order of names is that of age.
func (d *Depot) exhume(folder string) (failed error) {
	letters, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("dead letters: %w", err)
	}
	for _, letter := range letters[:max(0, len(letters)-maxDead)] {
		failed = errors.Join(failed, os.Remove(filepath.Join(folder, letter.Name())))
	}
	return failed
}
