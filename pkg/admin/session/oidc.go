package session

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

	"github.com/logboom/logboom/pkg/project"
)

// Bounds of what an issuer may answer, and by how much its clock may differ.
const (
	issuerTimeout   = 10 * time.Second
	maxIssuerAnswer = 1 << 20
	clockSkew       = time.Minute
)

// Why a company account lets nobody in. What the issuer says beyond that goes
// to the log.
var (
	ErrForeignAttempt = errors.New("this sign-in was not begun in this browser, or too long ago: begin it again")
	ErrNotVerified    = errors.New("the company account has no verified e-mail address")
	ErrIssuer         = errors.New("the company account could not be checked")
)

// OIDCConfig is the issuer of company accounts.
type OIDCConfig struct {
	Issuer       string
	ClientID     string
	ClientSecret project.Secret
	RedirectURL  string // of the pages' callback, as the issuer knows it
}

// OIDC signs people in by an issuer of accounts: OpenID Connect, authorization
// code with PKCE. The issuer is asked what it offers at the first use, so that
// it need not be there when the process starts.
type OIDC struct {
	config OIDCConfig
	client *http.Client

	mu     sync.Mutex
	issuer *oidc.Provider // nil until it answered
}

// NewOIDC makes it; transport is nil for the usual one.
func NewOIDC(config OIDCConfig, transport http.RoundTripper) *OIDC {
	if transport == nil {
		transport = http.DefaultTransport
	}
	return &OIDC{config: config, client: &http.Client{
		Timeout:       issuerTimeout,
		Transport:     boundedTransport{transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // else to a place that nobody checked
	}}
}

// CheckIssuer refuses an issuer's address that is not encrypted, except on this
// machine.
func CheckIssuer(address string) error {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Host == "" || parsed.Scheme != "https" && !(parsed.Scheme == "http" && isLoopback(parsed.Host)) {
		return errors.New("must be an address such as https://accounts.example.org")
	}
	return nil
}

// Attempt is a sign-in that was begun: the browser keeps it until the issuer
// sends the person back.
type Attempt struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"`
}

// String is the attempt as a cookie's value.
func (a Attempt) String() string {
	text, _ := json.Marshal(a) // three strings always are JSON
	return base64.RawURLEncoding.EncodeToString(text)
}

// ParseAttempt is the inverse of String; the zero value where the text is none.
func ParseAttempt(text string) Attempt {
	var a Attempt
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(raw, &a) != nil {
		return Attempt{}
	}
	return a
}

// Begin is where to send the person, and what to remember meanwhile.
func (o *OIDC) Begin(ctx context.Context) (address string, attempt Attempt, err error) {
	issuer, err := o.discover(ctx)
	if err != nil {
		return "", Attempt{}, issuerError(err)
	}
	attempt = Attempt{rand.Text(), rand.Text(), oauth2.GenerateVerifier()}
	return o.exchange(issuer).AuthCodeURL(attempt.State, oidc.Nonce(attempt.Nonce), oauth2.S256ChallengeOption(attempt.Verifier)), attempt, nil
}

// Finish is the verified address of the person whom the issuer sent back with
// the state and the code.
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
	var said claims
	if err := token.Claims(&said); err != nil {
		return "", issuerError(err)
	}
	if said.Party != "" && said.Party != o.config.ClientID {
		return "", issuerError(errors.New("the ID token is for another client"))
	}
	if said.Email == "" || !said.Verified {
		return "", ErrNotVerified
	}
	return said.Email, nil
}

// claims are what an ID token says beyond what its verifier looks at (OpenID
// Connect Core 1.0, sections 2 and 5.1).
type claims struct {
	Party    string `json:"azp"`
	Email    string `json:"email"`
	Verified bool   `json:"email_verified"`
}

// redeem asks the issuer for the code's ID token. It is signed by one of the
// issuer's keys, for this client, and has not expired.
func (o *OIDC) redeem(ctx context.Context, attempt Attempt, code string) (*oidc.IDToken, error) {
	issuer, err := o.discover(ctx)
	if err != nil {
		return nil, err
	}
	ctx = oidc.ClientContext(ctx, o.client)
	tokens, err := o.exchange(issuer).Exchange(ctx, code, oauth2.VerifierOption(attempt.Verifier))
	if err != nil {
		return nil, err
	}
	raw, _ := tokens.Extra("id_token").(string) // none: no token either
	verifier := issuer.Verifier(&oidc.Config{ClientID: o.config.ClientID, Now: func() time.Time { return time.Now().Add(-clockSkew) }})
	return verifier.Verify(ctx, raw)
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// maxIssuerWords bounds what is repeated of an issuer's answer: the libraries'
// errors hold all of it.
const maxIssuerWords = 500

func issuerError(err error) error { return fmt.Errorf("%w: %.*s", ErrIssuer, maxIssuerWords, err) }

// exchange is how codes become tokens at the issuer.
func (o *OIDC) exchange(issuer *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{
		ClientID: o.config.ClientID, ClientSecret: o.config.ClientSecret.Reveal(), RedirectURL: o.config.RedirectURL,
		Endpoint: issuer.Endpoint(), Scopes: []string{oidc.ScopeOpenID, "email"},
	}
}

// discover asks the issuer once; an issuer that does not answer is asked again
// the next time. The lock is held meanwhile: whoever else comes would wait for
// the same answer.
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

// checkEndpoints refuses a discovery that would send secrets, or fetch keys,
// over an open connection.
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

// boundedTransport cuts answers that are longer than any good one.
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
