package people

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/logboom/logboom/pkg/secret"
)

// The bounds of an issuer's answers, and of the difference of its clock.
const (
	issuerTimeout   = 10 * time.Second
	maxIssuerAnswer = 1 << 20
	clockSkew       = time.Minute
)

// Why a sign-in with a company account failed. The issuer's own words, which
// ErrIssuer wraps, are for the log.
var (
	ErrForeignAttempt = errors.New("this sign-in was not begun in this browser, or too long ago: begin it again")
	ErrNotVerified    = errors.New("the company account has no verified e-mail address")
	ErrIssuer         = errors.New("the company account could not be checked")
)

// OIDCConfig describes the issuer of company accounts.
type OIDCConfig struct {
	Issuer       string
	ClientID     string
	ClientSecret secret.Value
	RedirectURL  string // the address of the pages' callback that is registered with the issuer
}

// OIDC signs people in with company accounts: OpenID Connect, authorization code
// with PKCE. It reads the issuer's configuration at the first use, so that the
// issuer need not be reachable when the process starts.
type OIDC struct {
	config OIDCConfig
	client *http.Client

	mu     sync.Mutex
	issuer *oidc.Provider // nil until its configuration was read
}

// NewOIDC returns the sign-in of the issuer. A nil transport means
// http.DefaultTransport.
func NewOIDC(config OIDCConfig, transport http.RoundTripper) *OIDC {
	if transport == nil {
		transport = http.DefaultTransport
	}
	return &OIDC{config: config, client: &http.Client{
		Timeout:       issuerTimeout,
		Transport:     boundedTransport{transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the place was not checked
	}}
}

// CheckIssuer returns an error unless an issuer's address uses https or is on
// this machine.
func CheckIssuer(address string) error {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Host == "" || parsed.Scheme != "https" && !(parsed.Scheme == "http" && isLoopback(parsed.Host)) {
		return errors.New("must be an address such as https://accounts.example.org")
	}
	return nil
}

// Attempt is a sign-in in progress. The browser keeps it in a cookie until the
// issuer sends the person back.
type Attempt struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"`
}

// String returns the attempt as the value of a cookie.
func (a Attempt) String() string {
	text, _ := json.Marshal(a) // three strings can always be encoded
	return base64.RawURLEncoding.EncodeToString(text)
}

// ParseAttempt is the inverse of String. It returns the zero value if the text is
// not an attempt.
func ParseAttempt(text string) Attempt {
	var a Attempt
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(raw, &a) != nil {
		return Attempt{}
	}
	return a
}

// Begin returns the address to send the person to, and the attempt to keep until
// the person comes back.
func (o *OIDC) Begin(ctx context.Context) (address string, attempt Attempt, err error) {
	issuer, err := o.discover(ctx)
	if err != nil {
		return "", Attempt{}, issuerError(err)
	}
	attempt = Attempt{rand.Text(), rand.Text(), oauth2.GenerateVerifier()}
	return o.oauth(issuer).AuthCodeURL(attempt.State, oidc.Nonce(attempt.Nonce), oauth2.S256ChallengeOption(attempt.Verifier)), attempt, nil
}

// Finish returns the verified e-mail address of the person whom the issuer sent
// back with the state and the code.
func (o *OIDC) Finish(ctx context.Context, attempt Attempt, state, code string) (email string, err error) {
	if attempt.State == "" || !same(attempt.State, state) {
		return "", ErrForeignAttempt
	}
	token, err := o.redeem(ctx, attempt, code)
	if err != nil {
		return "", issuerError(err)
	}
	if !same(token.Nonce, attempt.Nonce) {
		return "", ErrForeignAttempt
	}
	var c claims
	if err := token.Claims(&c); err != nil {
		return "", issuerError(err)
	}
	if c.Party != "" && c.Party != o.config.ClientID {
		return "", issuerError(errors.New("the ID token is for another client"))
	}
	if c.Email == "" || !c.Verified {
		return "", ErrNotVerified
	}
	return c.Email, nil
}

// claims are the parts of an ID token that the library's verifier does not check
// (OpenID Connect Core 1.0, sections 2 and 5.1).
type claims struct {
	Party    string `json:"azp"`
	Email    string `json:"email"`
	Verified bool   `json:"email_verified"`
}

// redeem exchanges the code for an ID token, and verifies that one of the
// issuer's keys signed it for this client and that it has not expired.
func (o *OIDC) redeem(ctx context.Context, attempt Attempt, code string) (*oidc.IDToken, error) {
	issuer, err := o.discover(ctx)
	if err != nil {
		return nil, err
	}
	ctx = oidc.ClientContext(ctx, o.client)
	tokens, err := o.oauth(issuer).Exchange(ctx, code, oauth2.VerifierOption(attempt.Verifier))
	if err != nil {
		return nil, err
	}
	raw, _ := tokens.Extra("id_token").(string) // if it is missing, the verifier refuses ""
	verifier := issuer.Verifier(&oidc.Config{ClientID: o.config.ClientID, Now: func() time.Time { return time.Now().Add(-clockSkew) }})
	return verifier.Verify(ctx, raw)
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// maxIssuerError bounds the text of an issuer's error: the libraries' errors
// contain the whole answer.
const maxIssuerError = 500

func issuerError(err error) error { return fmt.Errorf("%w: %.*s", ErrIssuer, maxIssuerError, err) }

func (o *OIDC) oauth(issuer *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{
		ClientID: o.config.ClientID, ClientSecret: o.config.ClientSecret.Reveal(), RedirectURL: o.config.RedirectURL,
		Endpoint: issuer.Endpoint(), Scopes: []string{oidc.ScopeOpenID, "email"},
	}
}

// discover reads the issuer's configuration once. If the issuer does not answer,
// the next call tries again. The lock is held during the request, because other
// callers would wait for the same answer.
func (o *OIDC) discover(ctx context.Context) (*oidc.Provider, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.issuer != nil {
		return o.issuer, nil
	}
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, o.client), o.config.Issuer)
	if err != nil {
		return nil, err
	}
	if err := checkEndpoints(found); err != nil {
		return nil, err
	}
	o.issuer = found
	return found, nil
}

// checkEndpoints refuses a configuration that would send secrets, or read keys,
// without encryption.
func checkEndpoints(found *oidc.Provider) error {
	var keys struct {
		Address string `json:"jwks_uri"`
	}
	if err := found.Claims(&keys); err != nil {
		return fmt.Errorf("discovery: %w", err)
	}
	for _, address := range []string{found.Endpoint().AuthURL, found.Endpoint().TokenURL, keys.Address} {
		if err := CheckIssuer(address); err != nil {
			return fmt.Errorf("endpoint in the discovery: %w", err)
		}
	}
	return nil
}

// boundedTransport cuts off answers that are longer than maxIssuerAnswer.
type boundedTransport struct {
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(answer.Body, maxIssuerAnswer), answer.Body}
	return answer, nil
}
