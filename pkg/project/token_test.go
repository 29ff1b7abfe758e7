package project

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A token whose checksum was computed by other means (Python's zlib.crc32).
const knownToken = "lgb_0123456789ABCDEFGHIJKLMNOPQRSTUV" + "1HD5Oh"

func TestTokenHasPrefixRandomPartAndChecksum(t *testing.T) {
	t.Parallel()
	d, err := ParseToken(knownToken)
	if err != nil {
		t.Fatal(err)
	}
	if want := sha256.Sum256([]byte(knownToken)); d != want {
		t.Errorf("digest %x, want %x", d, want)
	}
	seen := map[string]bool{}
	for range 1000 {
		token := NewToken().Reveal()
		if len(token) != tokenLen || seen[token] {
			t.Fatalf("%q is of the wrong length or came twice", token)
		}
		seen[token] = true
		if _, err := ParseToken(token); err != nil {
			t.Fatalf("a new token is refused: %v", err)
		}
	}
}

func TestTokenWithOneWrongCharacterIsRefused(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		token := []byte(NewToken().Reveal())
		at := rapid.IntRange(0, len(token)-1).Draw(t, "at")
		wrong := rapid.Byte().Filter(func(b byte) bool { return b != token[at] }).Draw(t, "wrong")
		token[at] = wrong
		if _, err := ParseToken(string(token)); !errors.Is(err, ErrMalformed) {
			t.Fatalf("%q: %v", token, err)
		}
	})
}

func TestTokenOfAnotherFormIsRefused(t *testing.T) {
	t.Parallel()
	good := NewToken().Reveal()
	for name, token := range map[string]string{
		"empty":        "",
		"cut":          good[:len(good)-1],
		"longer":       good + "0",
		"no prefix":    good[prefixLen:],
		"API key":      newSecret(keyPrefix).Reveal(),
		"space around": " " + good[1:],
		"huge":         strings.Repeat(good, 10_000),
	} {
		if _, err := ParseToken(token); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add(knownToken)
	f.Add("lgb_")
	f.Add("")
	f.Fuzz(func(t *testing.T, token string) {
		d, err := ParseToken(token)
		if err != nil {
			if !errors.Is(err, ErrMalformed) || len(token) >= 8 && strings.Contains(err.Error(), token) {
				t.Fatalf("%v", err)
			}
			return
		}
		if d != sha256.Sum256([]byte(token)) || appendable(token) != token {
			t.Fatalf("%q was taken for a token", token)
		}
	})
}

// appendable is the token with its checksum computed anew.
func appendable(token string) string {
	body := []byte(token)[:checkedLen]
	return string(appendChecksum(body[:checkedLen:checkedLen], crc32.ChecksumIEEE(body)))
}

func TestTokenIDIsReadStrictly(t *testing.T) {
	t.Parallel()
	d, err := ParseToken(knownToken)
	if err != nil {
		t.Fatal(err)
	}
	id, err := ParseTokenID(d.ID().String())
	if err != nil || id != d.ID() {
		t.Errorf("%v: %v", id, err)
	}
	for _, text := range []string{"", "xyz", strings.ToUpper(d.ID().String()), d.ID().String() + "00", "*", strings.Repeat("g", 32)} {
		if _, err := ParseTokenID(text); !errors.Is(err, ErrNotFound) && text != d.ID().String() {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestSecretIsNeverPrinted(t *testing.T) {
	t.Parallel()
	const canary = "canary-5e3f0c"
	type holder struct {
		Open   Secret
		hidden Secret
		nested *struct{ s Secret }
	}
	secret := NewSecret(canary)
	values := []any{
		secret, &secret, []Secret{secret}, map[string]Secret{"a": secret}, holder{secret, secret, &struct{ s Secret }{secret}},
		&holder{Open: secret, hidden: secret}, Wanted{AdminPassword: secret, Token: secret, APIKey: secret},
		Made{AdminPassword: secret, Token: secret, APIKey: secret}, Alerts{WebhookURL: secret},
		StoreConfig{Key: secret, OldKeys: []Secret{secret}},
	}
	out := &sink{}
	text, jsons := slog.New(slog.NewTextHandler(out, nil)), slog.New(slog.NewJSONHandler(out, nil))
	for _, value := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%10s"} {
			_, _ = fmt.Fprintf(out, verb+"\n", value)
		}
		document, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = out.Write(document)
		text.Info("printed", "value", value)
		jsons.Info("printed", "value", value)
	}
	printed := out.String()
	for _, form := range []string{canary, fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary)} {
		if strings.Contains(printed, form) {
			t.Fatalf("the secret is in what was printed:\n%s", printed)
		}
	}
	if secret.Reveal() != canary || !secret.IsSet() || (Secret{}).IsSet() || (Secret{}).Reveal() != "" {
		t.Error("the secret is not what it was made of")
	}
}

func TestErrorsDoNotRepeatWhatIsSecret(t *testing.T) {
	t.Parallel()
	const canary = "canary-5e3f0c"
	_, tokenErr := ParseToken(canary)
	_, keyErr := digestKey(canary)
	_, redisErr := OpenRedis("redis://:" + canary + "@host:x/%zz")
	password := NewSecret(canary)
	bootErr := (&Wanted{Project: "p", Token: password}).Validate()
	bootKeyErr := (&Wanted{APIKey: password}).Validate()
	for _, err := range []error{tokenErr, keyErr, redisErr, bootErr, bootKeyErr} {
		if err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("no error, or one with the secret: %v", err)
		}
	}
}

func BenchmarkParseToken(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseToken(knownToken); err != nil {
			b.Fatal(err)
		}
	}
}
