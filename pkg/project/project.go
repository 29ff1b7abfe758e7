package project

import (
	"strings"
	"time"
	"unicode/utf8"
)

// Project is one project as the record has it.
type Project struct {
	// ID is what rows and quota keys carry: the name, "~" and 8 random
	// characters, such as demo~k3x9qa7d. It stays readable in SQL, and a
	// project that is deleted and made again under its old name never shows
	// the old one's data.
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Created  time.Time `json:"created"`
	Changed  time.Time `json:"changed"` // when the settings last were
	Settings Settings  `json:"settings"`
}

const maxNameLen = 40

// CheckName refuses a project name that is not 1 to 40 of "a-z 0-9 . _ -" with
// at least one letter or digit: "." and ".." mean something else in an address.
func CheckName(name string) error {
	if len(name) < 1 || len(name) > maxNameLen {
		return &InvalidError{"name", "must be 1 to 40 characters long"}
	}
	if strings.ContainsFunc(name, isForeign) {
		return &InvalidError{"name", "must be made of a-z 0-9 . _ - only"}
	}
	if strings.Trim(name, "._-") == "" {
		return &InvalidError{"name", "must contain a letter or digit"}
	}
	return nil
}

func isForeign(r rune) bool {
	return !('a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '.' || r == '_' || r == '-')
}

const maxLabelLen = 100

// checkLabel refuses a token's or key's name that could not be shown on one
// line: it is the default application of what is sent with the token.
func checkLabel(name string) error {
	if name == "" || len(name) > maxLabelLen {
		return &InvalidError{"name", "must be 1 to 100 bytes long"}
	}
	if !utf8.ValidString(name) || strings.ContainsFunc(name, isControl) {
		return &InvalidError{"name", "must be UTF-8 text without control characters"}
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || 0x7f <= r && r < 0xa0 }

// idAlphabet is Crockford's base 32 in lower case: nothing in it is easily
// mistaken for something else.
const idAlphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// newID gives a project's name a tail of 40 random bits.
func newID(name string) string {
	return string(appendRandom([]byte(name+"~"), 8, idAlphabet))
}
