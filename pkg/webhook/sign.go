package webhook

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Signer signs messages of the generic format, by the rules of
// https://www.standardwebhooks.com. The secret of each project is derived from
// the installation's key and stored nowhere. After a change of key, messages are
// signed with both keys until the old one is removed from the settings.
type Signer struct {
	keys []string // the first is the current one
}

// NewSigner returns a signer with the installation's keys, the current one first.
// The keys are base64 in either alphabet, padded or not; all spellings of a key
// are the same key.
func NewSigner(keys ...string) *Signer {
	s := &Signer{}
	for _, key := range keys {
		if key = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(strings.TrimSpace(key), "=")); key != "" {
			s.keys = append(s.keys, key)
		}
	}
	return s
}

// Open returns a signer with the installation's keys, and a sender that signs
// with it and may reach the hosts and networks of an operator's allow-list.
func Open(allow []string, keys ...string) (*Sender, *Signer, error) {
	list, err := ParseAllowList(allow)
	if err != nil {
		return nil, nil, err
	}
	signer := NewSigner(keys...)
	return NewSender(Config{Allow: list, Signer: signer}), signer, nil
}

const secretBytes = 32

// Secret returns the project's signing secret in the form that its receivers
// need, or "" if the installation has no key.
func (s *Signer) Secret(projectID string) (string, error) {
	if len(s.keys) == 0 {
		return "", nil
	}
	secret, err := derive(s.keys[0], projectID)
	if err != nil {
		return "", err
	}
	return "whsec_" + base64.StdEncoding.EncodeToString(secret), nil
}

func derive(key, projectID string) ([]byte, error) {
	secret, err := hkdf.Key(sha256.New, []byte(key), nil, "logboom webhook signature\x00"+projectID, secretBytes)
	if err != nil {
		return nil, fmt.Errorf("signing secret: %w", err)
	}
	return secret, nil
}

// sign sets the three headers of a signed message, with one signature for each
// key.
func (s *Signer) sign(header http.Header, projectID, id string, at time.Time, body []byte) error {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	var signatures []string
	for _, key := range s.keys {
		secret, err := derive(key, projectID)
		if err != nil {
			return err
		}
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(id + "." + timestamp + "."))
		mac.Write(body)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	header.Set("webhook-id", id)
	header.Set("webhook-timestamp", timestamp)
	if len(signatures) > 0 {
		header.Set("webhook-signature", strings.Join(signatures, " "))
	}
	return nil
}
