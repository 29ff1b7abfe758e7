package project

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/logboom/logboom/pkg/secret"
)

// keyBytes is the length of an AES-256 key.
const keyBytes = 32

// sealed is a secret as it is stored: encrypted with AES-256-GCM under the key
// with the ID, the random nonce first (NIST SP 800-38D). The owner of the secret
// is authenticated with it, so that it cannot be decrypted for another owner.
type sealed struct {
	Key string `json:"key"`
	Box []byte `json:"box"`
}

// sealOverhead is what a box has beside its secret: a nonce of 12 bytes and a
// tag of 16.
const sealOverhead = 12 + 16

// isEmpty reports whether the secret is empty. It needs no key.
func (s sealed) isEmpty() bool { return len(s.Box) <= sealOverhead }

// keyring encrypts with one key and decrypts with several, so that the key can
// be changed.
type keyring struct {
	current string                 // ID of the key that encrypts; empty: there is none
	keys    map[string]cipher.AEAD // by ID
}

// newKeyring decodes the keys, which are in base64. Its error names the field
// and does not contain the key.
func newKeyring(current secret.Value, old []secret.Value) (*keyring, error) {
	k := &keyring{keys: map[string]cipher.AEAD{}}
	if current.IsSet() {
		id, aead, err := decodeKey(current)
		if err != nil {
			return nil, &InvalidError{"Key", err.Error()}
		}
		k.current, k.keys[id] = id, aead
	}
	for _, key := range old {
		id, aead, err := decodeKey(key)
		if err != nil {
			return nil, &InvalidError{"OldKeys", err.Error()}
		}
		k.keys[id] = aead
	}
	return k, nil
}

var errBadKey = errors.New("must be 32 bytes in base64, such as openssl rand -base64 32 prints")

// decodeKey decodes a key in base64 of either alphabet, padded or not. The key's
// ID is a digest, which reveals nothing about a random key.
func decodeKey(key secret.Value) (id string, aead cipher.AEAD, err error) {
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

func (k *keyring) seal(plain secret.Value, owner string) (sealed, error) {
	if k.current == "" {
		return sealed{}, ErrNoKey
	}
	return sealed{k.current, k.keys[k.current].Seal(nil, nil, []byte(plain.Reveal()), []byte(owner))}, nil
}

func (k *keyring) open(box sealed, owner string) (secret.Value, error) {
	aead, ok := k.keys[box.Key]
	if !ok {
		return secret.Value{}, fmt.Errorf("encrypted with key %.8q: %w", box.Key, ErrNoKey)
	}
	plain, err := aead.Open(nil, nil, box.Box, []byte(owner))
	if err != nil {
		return secret.Value{}, fmt.Errorf("encrypted with key %s, or copied from another project: %w", box.Key, ErrNoKey)
	}
	return secret.New(string(plain)), nil
}

// maxKeyFile bounds how much of a key file is read: a key takes 45 bytes.
const maxKeyFile = 1 << 10

// LoadOrCreateKey returns the key in the file, in the form of Config.Key. If
// there is no file, it creates one with a random key, readable by its owner
// only. The file appears whole or not at all, and one of several processes that
// start at once creates it. What was encrypted is lost with the file.
func LoadOrCreateKey(path string) (secret.Value, error) {
	key, err := loadKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := createKey(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return secret.Value{}, fmt.Errorf("create key file: %w", err)
	}
	return loadKey(path)
}

func loadKey(path string) (secret.Value, error) {
	file, err := os.Open(path)
	if err != nil {
		return secret.Value{}, fmt.Errorf("key file: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil {
		return secret.Value{}, fmt.Errorf("key file: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return secret.Value{}, fmt.Errorf("key file %s: others than its owner may read it: chmod 600 it", path)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxKeyFile))
	if err != nil {
		return secret.Value{}, fmt.Errorf("key file: %w", err)
	}
	key := secret.New(string(text))
	if _, _, err := decodeKey(key); err != nil {
		return secret.Value{}, fmt.Errorf("key file %s: %w", path, err)
	}
	return key, nil
}

// createKey writes a temporary file in the same folder and links it to the path,
// which fails if another process was faster.
func createKey(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(dir, filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // if it stays, nothing uses its key
	var key [keyBytes]byte
	_, _ = rand.Read(key[:]) // never fails: crypto/rand stops the process instead
	_, err = file.WriteString(base64.StdEncoding.EncodeToString(key[:]) + "\n")
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Link(file.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes the new file's name survive a power loss, as its content does.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
