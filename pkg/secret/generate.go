package secret

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"hash/crc32"
)

// A generated token or key is a prefix of four characters such as "lgb_", 32
// random base62 characters (190 bits) and 6 characters of checksum: the IEEE
// CRC-32 of the 36 characters before it, in base62, most significant digit
// first, padded with "0". The last four characters, which are stored and shown,
// belong to the checksum: they reveal at most 24 of the 190 bits.
const (
	prefixLen   = 4
	randomLen   = 32
	checksumLen = 6
	checkedLen  = prefixLen + randomLen

	// GeneratedLen is the length of what Generate returns.
	GeneratedLen = checkedLen + checksumLen
)

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// ErrMalformed means that a text does not have the form of a token, key or ID.
var ErrMalformed = errors.New("malformed")

// Generate returns a new random token or key. The prefix has four characters.
func Generate(prefix string) Value {
	buf := make([]byte, 0, GeneratedLen)
	buf = append(buf, prefix...)
	buf = AppendRandom(buf, randomLen, base62)
	return New(string(appendChecksum(buf, checksum(buf))))
}

// Parse checks that text has the form that Generate gives it, with the prefix
// and a correct checksum, and returns its digest. It does not allocate. The
// error is ErrMalformed and does not contain the text.
func Parse(prefix, text string) (Digest, error) {
	if len(text) != GeneratedLen || text[:prefixLen] != prefix {
		return Digest{}, ErrMalformed
	}
	var buf, want [GeneratedLen]byte
	copy(buf[:], text)
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

// AppendRandom appends n random characters of the alphabet, each equally
// likely: random bytes beyond the last whole multiple of the alphabet's length
// are discarded.
func AppendRandom(dst []byte, n int, alphabet string) []byte {
	limit := 256 / len(alphabet) * len(alphabet)
	var random [64]byte
	for n > 0 {
		_, _ = rand.Read(random[:]) // never fails: crypto/rand stops the process instead
		for _, b := range random {
			if int(b) < limit && n > 0 {
				dst = append(dst, alphabet[int(b)%len(alphabet)])
				n--
			}
		}
	}
	return dst
}

// checksum is crc32.ChecksumIEEE without its allocation: that function makes
// its argument escape to the heap, and Parse runs for every request.
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

// Last4 returns the last four characters of a token, key or address. People
// tell one from another by them.
func Last4(text string) string {
	runes := []rune(text)
	return string(runes[max(0, len(runes)-4):])
}

// Digest is the SHA-256 of a token or key. Only the digest is stored.
type Digest [sha256.Size]byte

// ID identifies a token or key: the first half of its digest. Finding a second
// token with the same 128 bits is as hard as guessing the token, so caches and
// the record use the ID as their key.
type ID [16]byte

// ID returns the first half of the digest.
func (d Digest) ID() ID { return ID(d[:16]) }

// String returns the digest in lower-case hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// Matches reports whether stored is the digest in hexadecimal. It takes the
// same time for every stored text, including an empty one.
func (d Digest) Matches(stored string) bool {
	var other Digest
	n, err := hex.Decode(other[:], []byte(stored[:min(len(stored), 2*len(other))]))
	same := subtle.ConstantTimeCompare(other[:], d[:]) == 1
	return same && err == nil && n == len(other)
}

// String returns the ID in lower-case hexadecimal.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// ParseID parses an ID of 32 lower-case hexadecimal digits. The error is
// ErrMalformed.
func ParseID(text string) (ID, error) {
	var id ID
	if len(text) != 2*len(id) {
		return ID{}, ErrMalformed
	}
	if _, err := hex.Decode(id[:], []byte(text)); err != nil || id.String() != text {
		return ID{}, ErrMalformed
	}
	return id, nil
}
