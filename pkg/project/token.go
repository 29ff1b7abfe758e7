package project

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/crc32"
)

// A token is "lgb_", 32 random base62 characters (190 bits) and 6 characters
// of checksum: the IEEE CRC-32 of the 36 characters before it, in base62, most
// significant digit first, padded with "0". An API key that Logboom makes has
// the same form and begins with "lgk_". The last four characters, which are
// kept to be shown, are checksum: they tell at most 24 of the 190 bits.
const (
	tokenPrefix = "lgb_"
	keyPrefix   = "lgk_"

	prefixLen   = len(tokenPrefix)
	randomLen   = 32
	checksumLen = 6
	checkedLen  = prefixLen + randomLen
	tokenLen    = checkedLen + checksumLen
)

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// Digest is the SHA-256 of a token or API key: all that is kept of it.
type Digest [sha256.Size]byte

// TokenID names a token or API key: the first half of its digest. 128 bits are
// as hard to meet by chance or by search as the token itself, so the process
// and shared caches use it as their key.
type TokenID [16]byte

// ID is the digest's first half.
func (d Digest) ID() TokenID { return TokenID(d[:16]) }

// String is the ID in lower-case hexadecimal.
func (id TokenID) String() string { return hex.EncodeToString(id[:]) }

// ParseTokenID reads an ID of 32 lower-case hexadecimal digits.
func ParseTokenID(text string) (TokenID, error) {
	var id TokenID
	if len(text) != 2*len(id) {
		return TokenID{}, ErrNotFound
	}
	if _, err := hex.Decode(id[:], []byte(text)); err != nil || id.String() != text {
		return TokenID{}, ErrNotFound
	}
	return id, nil
}

// NewToken makes a token at random.
func NewToken() Secret { return newSecret(tokenPrefix) }

func newSecret(prefix string) Secret {
	buf := make([]byte, 0, tokenLen)
	buf = append(buf, prefix...)
	buf = appendRandom(buf, randomLen, base62)
	return NewSecret(string(appendChecksum(buf, checksum(buf))))
}

// appendRandom appends n characters of the alphabet, each equally likely: a
// byte beyond the last whole multiple of the alphabet's length is thrown away.
func appendRandom(dst []byte, n int, alphabet string) []byte {
	limit := 256 / len(alphabet) * len(alphabet)
	var pool [64]byte
	for n > 0 {
		_, _ = rand.Read(pool[:]) // never fails: crypto/rand stops the process instead
		for _, b := range pool {
			if int(b) < limit && n > 0 {
				dst = append(dst, alphabet[int(b)%len(alphabet)])
				n--
			}
		}
	}
	return dst
}

// checksum is crc32.ChecksumIEEE, byte by byte: that one makes its argument
// escape, which would cost each request an allocation.
func checksum(p []byte) uint32 {
	sum := ^uint32(0)
	for _, b := range p {
		sum = crc32.IEEETable[byte(sum)^b] ^ sum>>8
	}
	return ^sum
}

func appendChecksum(dst []byte, sum uint32) []byte {
	var digits [checksumLen]byte
	for i := checksumLen - 1; i >= 0; i-- {
		digits[i] = base62[sum%62]
		sum /= 62
	}
	return append(dst, digits[:]...)
}

// ParseToken checks a token's form and checksum and gives its digest, without
// any look-up and without allocating. The error is ErrMalformed and never
// repeats the token.
func ParseToken(token string) (Digest, error) {
	if len(token) != tokenLen || token[:prefixLen] != tokenPrefix {
		return Digest{}, ErrMalformed
	}
	var buf, want [tokenLen]byte
	copy(buf[:], token)
	for _, c := range buf[prefixLen:checkedLen] {
		if !isBase62(c) {
			return Digest{}, ErrMalformed
		}
	}
	appendChecksum(want[:0], checksum(buf[:checkedLen]))
	if [checksumLen]byte(buf[checkedLen:]) != [checksumLen]byte(want[:checksumLen]) {
		return Digest{}, ErrMalformed
	}
	return sha256.Sum256(buf[:]), nil
}

func isBase62(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}

// The bounds of an API key that an operator gives.
const (
	minKeyChars = 32
	maxKeyBytes = 512
)

// digestKey checks an API key and gives its digest. Any 32 characters or more
// do, for an operator may bring a key from elsewhere.
func digestKey(value string) (Digest, error) {
	if len(value) > maxKeyBytes || len([]rune(value)) < minKeyChars {
		return Digest{}, fmt.Errorf("%w: an API key has %d characters or more and at most %d bytes", ErrMalformed, minKeyChars, maxKeyBytes)
	}
	for _, c := range []byte(value) {
		if c <= ' ' || c == 0x7f {
			return Digest{}, fmt.Errorf("%w: an API key has no spaces or control characters", ErrMalformed)
		}
	}
	return sha256.Sum256([]byte(value)), nil
}

// last4 is what is shown of a secret so that people can tell it from others.
func last4(value string) string {
	runes := []rune(value)
	return string(runes[len(runes)-4:])
}
