package people

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/logboom/logboom/pkg/people/issuertest"
	"github.com/logboom/logboom/pkg/secret"
)

// clientOf returns a client of the issuer.
func clientOf(i *issuertest.Issuer) *OIDC {
	return NewOIDC(OIDCConfig{
		Issuer: i.URL, ClientID: issuertest.ClientID, ClientSecret: secret.New(issuertest.ClientSecret), RedirectURL: "https://logs.example.org/back",
	}, nil)
}

// agreed begins a sign-in to which the person consents.
func agreed(t *testing.T, i *issuertest.Issuer, o *OIDC) (attempt Attempt, state, code string) {
	t.Helper()
	address, attempt, err := o.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if state, code, err = i.Authorize(address); err != nil {
		t.Fatal(err)
	}
	return ParseAttempt(attempt.String()), state, code
}

func TestCompanyAccountReturnsItsVerifiedAddressOnce(t *testing.T) {
	t.Parallel()
	i := issuertest.Start(t)
	o := clientOf(i)
	for range 2 {
		attempt, state, code := agreed(t, i, o)
		if email, err := o.Finish(t.Context(), attempt, state, code); err != nil || email != issuertest.Email {
			t.Errorf("%q, %v", email, err)
		}
		if _, err := o.Finish(t.Context(), attempt, state, code); !errors.Is(err, ErrIssuer) {
			t.Errorf("the same code again: %v", err)
		}
	}
}

func TestClockOfAnIssuerMayDifferALittle(t *testing.T) {
	t.Parallel()
	i := issuertest.Start(t)
	i.Claims = map[string]any{"exp": time.Now().Add(-clockSkew / 3).Unix()}
	o := clientOf(i)
	attempt, state, code := agreed(t, i, o)
	if _, err := o.Finish(t.Context(), attempt, state, code); err != nil {
		t.Error(err)
	}
}

func TestInvalidCompanyAccountIsRefused(t *testing.T) {
	t.Parallel()
	foreign, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		claims map[string]any
		change func(*issuertest.Issuer)
		state  string
		code   string
		want   error
	}{
		"another state":       {state: "other", want: ErrForeignAttempt},
		"no state":            {state: "-", want: ErrForeignAttempt},
		"another code":        {code: "bad-code", want: ErrIssuer},
		"another key":         {change: func(i *issuertest.Issuer) { i.Signer = issuertest.Signer(foreign) }, want: ErrIssuer},
		"the client's secret": {change: func(i *issuertest.Issuer) { i.Signer = secretSigner() }, want: ErrIssuer},
		"no signature":        {change: func(i *issuertest.Issuer) { i.Unsigned = true }, want: ErrIssuer},
		"another issuer":      {claims: map[string]any{"iss": "https://evil.example"}, want: ErrIssuer},
		"another client":      {claims: map[string]any{"aud": []string{"other"}}, want: ErrIssuer},
		"for another party":   {claims: map[string]any{"aud": []string{"logboom", "other"}, "azp": "other"}, want: ErrIssuer},
		"expired":             {claims: map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}, want: ErrIssuer},
		"not yet good":        {claims: map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}, want: ErrIssuer},
		"another nonce":       {claims: map[string]any{"nonce": "old"}, want: ErrForeignAttempt},
		"no nonce":            {claims: map[string]any{"nonce": ""}, want: ErrForeignAttempt},
		"address not checked": {claims: map[string]any{"email_verified": false}, want: ErrNotVerified},
		"no address":          {claims: map[string]any{"email": ""}, want: ErrNotVerified},
		"claims of odd types": {claims: map[string]any{"email_verified": "yes"}, want: ErrIssuer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := issuertest.Start(t)
			if i.Claims = tc.claims; tc.change != nil {
				tc.change(i)
			}
			o := clientOf(i)
			attempt, state, code := agreed(t, i, o)
			if tc.state != "" {
				state = strings.TrimPrefix(tc.state, "-")
			}
			if tc.code != "" {
				code = tc.code
			}
			if email, err := o.Finish(t.Context(), attempt, state, code); !errors.Is(err, tc.want) || email != "" {
				t.Errorf("%q, %v", email, err)
			}
		})
	}
}

// secretSigner signs with the client secret, like an attacker who hopes that the
// algorithms are confused.
func secretSigner() jose.SigningKey {
	return jose.SigningKey{Algorithm: jose.HS256, Key: []byte(strings.Repeat(issuertest.ClientSecret, 2))}
}

func TestUnknownAttemptIsRefused(t *testing.T) {
	t.Parallel()
	i := issuertest.Start(t)
	o := clientOf(i)
	_, _, code := agreed(t, i, o)
	for _, text := range []string{"", "x", "e30", base64.RawURLEncoding.EncodeToString([]byte(`{"s":""}`))} {
		if _, err := o.Finish(t.Context(), ParseAttempt(text), "", code); !errors.Is(err, ErrForeignAttempt) {
			t.Errorf("cookie %q: %v", text, err)
		}
	}
}

func TestAttemptOfAnotherBrowserRedeemsNoCode(t *testing.T) {
	t.Parallel()
	i := issuertest.Start(t)
	o := clientOf(i)
	mine, state, _ := agreed(t, i, o)
	_, _, theirs := agreed(t, i, o)
	if _, err := o.Finish(t.Context(), mine, state, theirs); !errors.Is(err, ErrIssuer) {
		t.Errorf("a code with another's verifier: %v", err)
	}
}

func TestIssuerMustBeItselfAndEncrypted(t *testing.T) {
	t.Parallel()
	for field, value := range map[string]string{
		"issuer": "https://evil.example", "token_endpoint": "http://evil.example/token", "authorization_endpoint": "javascript:alert(1)", "jwks_uri": "http://evil.example/keys",
	} {
		i := issuertest.Start(t)
		i.Discovery = map[string]any{field: value}
		if _, _, err := clientOf(i).Begin(t.Context()); !errors.Is(err, ErrIssuer) {
			t.Errorf("%s %s: %v", field, value, err)
		}
	}
	for address, good := range map[string]bool{"https://accounts.example.org": true, "http://127.0.0.1:5556/dex": true, "http://accounts.example.org": false, "": false, "x": false} {
		if err := CheckIssuer(address); (err == nil) != good {
			t.Errorf("issuer %q: %v", address, err)
		}
	}
}

func TestRedirectOfAnIssuerIsNotFollowed(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/.well-known/openid-configuration", "/token", "/keys"} {
		i, other := issuertest.Start(t), issuertest.Start(t)
		other.Discovery = map[string]any{"issuer": i.URL}
		i.Redirects = map[string]string{path: other.URL + path}
		o := clientOf(i)
		address, attempt, err := o.Begin(t.Context())
		if err == nil {
			var state, code string
			if state, code, err = i.Authorize(address); err != nil {
				t.Fatal(err)
			}
			_, err = o.Finish(t.Context(), attempt, state, code)
		}
		if !errors.Is(err, ErrIssuer) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestLongAnswerOfAnIssuerIsCut(t *testing.T) {
	t.Parallel()
	i := issuertest.Start(t)
	i.Discovery = map[string]any{"issuer": strings.Repeat("x", 2*maxIssuerAnswer)}
	_, _, err := clientOf(i).Begin(t.Context())
	if !errors.Is(err, ErrIssuer) || len(err.Error()) > 2*maxIssuerError {
		t.Errorf("%.1000v", err)
	}
}

func TestIssuerThatDidNotAnswerIsAskedAgain(t *testing.T) {
	t.Parallel()
	i := issuertest.Start(t)
	o := clientOf(i)
	i.Discovery = map[string]any{"issuer": ""}
	if _, _, err := o.Begin(t.Context()); !errors.Is(err, ErrIssuer) {
		t.Fatalf("without discovery: %v", err)
	}
	i.Discovery = nil
	agreed(t, i, o)
}

func FuzzAttemptIsKeptByItsCookie(f *testing.F) {
	f.Add("")
	f.Add(Attempt{"state", "nonce", "verifier"}.String())
	f.Fuzz(func(t *testing.T, text string) {
		found := ParseAttempt(text)
		if again := ParseAttempt(found.String()); again != found {
			t.Errorf("%+v became %+v", found, again)
		}
	})
}
