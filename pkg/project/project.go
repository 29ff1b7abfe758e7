package project

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/logboom/logboom/pkg/secret"
)

// Project is one project as it is stored.
type Project struct {
	// ID is what rows and quota keys carry: the name, "~" and 8 random
	// characters, such as demo~k3x9qa7d. It is readable in SQL, and differs
	// between two projects that had the same name one after the other.
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Created  time.Time `json:"created"`
	Changed  time.Time `json:"changed"` // when the settings were last changed
	Settings Settings  `json:"settings"`
}

const maxNameLen = 40

// CheckName returns an InvalidError unless name is 1 to 40 of "a-z 0-9 . _ -"
// with at least one letter or digit: "." and ".." have a meaning in a URL.
func CheckName(name string) error {
	if len(name) < 1 || len(name) > maxNameLen {
		return &InvalidError{"name", "must be 1 to 40 characters long"}
	}
	isForeign := func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789._-", r) }
	if strings.ContainsFunc(name, isForeign) {
		return &InvalidError{"name", "must consist of a-z 0-9 . _ - only"}
	}
	if strings.Trim(name, "._-") == "" {
		return &InvalidError{"name", "must contain a letter or digit"}
	}
	return nil
}

const maxLabelLen = 100

// CheckLabel returns an InvalidError unless the name of a token or API key can
// be shown on one line. A token's name is the default application of the logs
// that are sent with it.
func CheckLabel(name string) error {
	if name == "" || len(name) > maxLabelLen {
		return &InvalidError{"name", "must be 1 to 100 bytes long"}
	}
	isControl := func(r rune) bool { return r < ' ' || 0x7f <= r && r < 0xa0 }
	if !utf8.ValidString(name) || strings.ContainsFunc(name, isControl) {
		return &InvalidError{"name", "must be UTF-8 text without control characters"}
	}
	return nil
}

// idAlphabet is Crockford's base 32 in lower case, which has no characters that
// look alike.
const idAlphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// newID appends 40 random bits to a project's name.
func newID(name string) string {
	return string(secret.AppendRandom([]byte(name+"~"), 8, idAlphabet))
}

const projectKeys = "project."

// nameKey returns the key of a project's document. A key may not have two dots
// in a row or a dot at its end; "=" occurs in no name.
func nameKey(name string) string {
	return projectKeys + strings.ReplaceAll(name, ".", "=")
}

// NameInKey returns the name of the project whose document has the key in
// PROJECTS, and false if the key is not that of a project.
func NameInKey(key string) (name string, ok bool) {
	text, ok := strings.CutPrefix(key, projectKeys)
	return strings.ReplaceAll(text, "=", "."), ok
}

// IDToKey returns a project's ID in the form that it has inside a key, where
// neither "." nor "~" can stand. IDFromKey is its inverse.
func IDToKey(projectID string) string {
	return strings.NewReplacer(".", "=", "~", "/").Replace(projectID)
}

// IDFromKey returns the project's ID that IDToKey was given.
func IDFromKey(part string) string {
	return strings.NewReplacer("=", ".", "/", "~").Replace(part)
}
