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

// Signer signs what receivers of the generic format get, by the rules of
// https://www.standardwebhooks.com. Each project has a secret of its own, which
// is derived from the installation's key and so kept nowhere; a key that was
// changed goes on signing beside the new one until it is taken away.
type Signer struct {
	keys []string // the first is the current one
}

// NewSigner takes the installation's keys, the current one first. They are
// base64 of either alphabet, padded or not: one key is one key, however it is
// spelled.
func NewSigner(keys ...string) *Signer {
	s := &Signer{}
	for _, key := range keys {
		if key = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(strings.TrimSpace(key), "=")); key != "" {
			s.keys = append(s.keys, key)
		}
	}
	return s
}

// Open makes the signer of the installation's keys, and a sender that uses it
// and may reach whom the entries of an operator's allow-list name.
func Open(allow []string, keys ...string) (*Sender, *Signer, error) {
	list, err := ParseAllowList(allow)
	if err != nil {
		return nil, nil, err
	}
	signer := NewSigner(keys...)
	return NewSender(Config{Allow: list, Signer: signer}), signer, nil
}

const secretBytes = 32

// Secret is the project's signing secret as its receivers are given it, empty
// where the installation has no key.
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

// sign sets the three headers, with one signature for each key.
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
