package secret

import (
	"bytes"
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
	d, err := Parse("lgb_", knownToken)
	if err != nil {
		t.Fatal(err)
	}
	if want := sha256.Sum256([]byte(knownToken)); d != want {
		t.Errorf("digest %x, want %x", d, want)
	}
	seen := map[string]bool{}
	for range 1000 {
		token := Generate("lgb_").Reveal()
		if len(token) != GeneratedLen || seen[token] {
			t.Fatalf("%q has the wrong length or came twice", token)
		}
		seen[token] = true
		if _, err := Parse("lgb_", token); err != nil {
			t.Fatalf("a new token is refused: %v", err)
		}
	}
}

func TestTokenWithOneWrongCharacterIsRefused(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		token := []byte(Generate("lgb_").Reveal())
		at := rapid.IntRange(0, len(token)-1).Draw(t, "at")
		wrong := rapid.Byte().Filter(func(b byte) bool { return b != token[at] }).Draw(t, "wrong")
		token[at] = wrong
		if _, err := Parse("lgb_", string(token)); !errors.Is(err, ErrMalformed) {
			t.Fatalf("%q: %v", token, err)
		}
	})
}

func TestMalformedTokenIsRefused(t *testing.T) {
	t.Parallel()
	good := Generate("lgb_").Reveal()
	for name, token := range map[string]string{
		"empty":        "",
		"cut":          good[:len(good)-1],
		"longer":       good + "0",
		"no prefix":    good[prefixLen:],
		"API key":      Generate("lgk_").Reveal(),
		"space around": " " + good[1:],
		"huge":         strings.Repeat(good, 10_000),
	} {
		if _, err := Parse("lgb_", token); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(knownToken)
	f.Add("lgb_")
	f.Add("")
	f.Fuzz(func(t *testing.T, token string) {
		d, err := Parse("lgb_", token)
		if err != nil {
			if !errors.Is(err, ErrMalformed) || len(token) >= 8 && strings.Contains(err.Error(), token) {
				t.Fatalf("%v", err)
			}
			return
		}
		if d != sha256.Sum256([]byte(token)) || appendable(token) != token {
			t.Fatalf("%q was accepted as a token", token)
		}
	})
}

// appendable returns the token with a newly computed checksum.
func appendable(token string) string {
	body := []byte(token)[:checkedLen]
	return string(appendChecksum(body[:checkedLen:checkedLen], crc32.ChecksumIEEE(body)))
}

func TestIDIsParsedStrictly(t *testing.T) {
	t.Parallel()
	d, err := Parse("lgb_", knownToken)
	if err != nil {
		t.Fatal(err)
	}
	id, err := ParseID(d.ID().String())
	if err != nil || id != d.ID() {
		t.Errorf("%v: %v", id, err)
	}
	for _, text := range []string{"", "xyz", strings.ToUpper(d.ID().String()), d.ID().String() + "00", "*", strings.Repeat("g", 32)} {
		if _, err := ParseID(text); !errors.Is(err, ErrMalformed) && text != d.ID().String() {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestSecretIsNeverPrinted(t *testing.T) {
	t.Parallel()
	const canary = "canary-5e3f0c"
	type holder struct {
		Open   Value
		hidden Value
		nested *struct{ s Value }
	}
	hidden := New(canary)
	values := []any{
		hidden, &hidden, []Value{hidden}, map[string]Value{"a": hidden}, holder{hidden, hidden, &struct{ s Value }{hidden}},
		&holder{Open: hidden, hidden: hidden},
	}
	out := &bytes.Buffer{}
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
	if hidden.Reveal() != canary || !hidden.IsSet() || (Value{}).IsSet() || (Value{}).Reveal() != "" {
		t.Error("Reveal does not return the secret")
	}
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse("lgb_", knownToken); err != nil {
			b.Fatal(err)
		}
	}
}
