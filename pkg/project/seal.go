package project

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// keyBytes is the length of a key: AES-256's.
const keyBytes = 32

// sealed is a secret as the record keeps it: AES-256-GCM under the key that is
// named, with the random nonce in front (NIST SP 800-38D). What it belongs to
// is authenticated with it, so that it opens nowhere else.
type sealed struct {
	Key string `json:"key"`
	Box []byte `json:"box"`
}

// sealOverhead is what a box has beside its secret: a nonce of 12 bytes and a
// tag of 16.
const sealOverhead = 12 + 16

// holdsText tells, without any key, whether the secret is more than nothing.
func (s sealed) holdsText() bool { return len(s.Box) > sealOverhead }

// keyring seals with one key and opens with several, so that keys can be
// changed.
type keyring struct {
	current string                 // ID of the key that seals; empty: none
	keys    map[string]cipher.AEAD // by ID
}

// newKeyring takes the keys in base64; the error names the field, not the key.
func newKeyring(current Secret, old []Secret) (*keyring, error) {
	k := &keyring{keys: map[string]cipher.AEAD{}}
	for i, key := range append([]Secret{current}, old...) {
		field := "Key"
		if i > 0 {
			field = "OldKeys"
		}
		if i == 0 && !key.IsSet() {
			continue
		}
		id, aead, err := openKey(key)
		if err != nil {
			return nil, &InvalidError{field, err.Error()}
		}
		k.keys[id] = aead
		if i == 0 {
			k.current = id
		}
	}
	return k, nil
}

var errBadKey = errors.New("must be 32 bytes in base64, such as openssl rand -base64 32 prints")

// openKey makes a cipher of a key in base64 of either alphabet, padded or not.
// Its ID tells nothing of a random key.
func openKey(key Secret) (id string, aead cipher.AEAD, err error) {
	text := strings.TrimRight(strings.TrimSpace(key.Reveal()), "=")
	text = strings.NewReplacer("-", "+", "_", "/").Replace(text)
	value, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || len(value) != keyBytes {
		return "", nil, errBadKey
	}
	block, err := aes.NewCipher(value)
	if err != nil {
		return "", nil, err
	}
	aead, err = cipher.NewGCMWithRandomNonce(block)
	sum := sha256.Sum256(append([]byte("logboom key id\x00"), value...))
	return hex.EncodeToString(sum[:4]), aead, err
}

func (k *keyring) seal(secret Secret, owner string) (sealed, error) {
	if k.current == "" {
		return sealed{}, ErrNoKey
	}
	return sealed{k.current, k.keys[k.current].Seal(nil, nil, []byte(secret.Reveal()), []byte(owner))}, nil
}

func (k *keyring) open(box sealed, owner string) (Secret, error) {
	aead, ok := k.keys[box.Key]
	if !ok {
		return Secret{}, fmt.Errorf("sealed with key %.8q: %w", box.Key, ErrNoKey)
	}
	plain, err := aead.Open(nil, nil, box.Box, []byte(owner))
	if err != nil {
		return Secret{}, fmt.Errorf("sealed with key %s, or another's copy: %w", box.Key, ErrNoKey)
	}
	return NewSecret(string(plain)), nil
}
