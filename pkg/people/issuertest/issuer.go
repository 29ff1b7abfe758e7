// Package issuertest runs an issuer of company accounts for a test: OpenID
// Connect on loopback, with a key of its own that signs its tokens.
//
// It returns one token for each sign-in, to a client with the code and the
// verifier. A test can make it return wrong values; without that, all of them are
// right.
package issuertest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// The client and the person that the issuer knows.
const (
	ClientID     = "logboom"
	ClientSecret = "the client's secret"
	Email        = "one@example.org"
)

// keyID names the issuer's key in its key set and in tokens.
const keyID = "of this test"

// Issuer is a running issuer. Change its fields only between requests.
type Issuer struct {
	URL       string
	Claims    map[string]any    // replace or add claims of a token
	Discovery map[string]any    // replace or add values of the configuration
	Signer    jose.SigningKey   // signs tokens; by default the published key
	Unsigned  bool              // use the algorithm "none"
	Redirects map[string]string // from paths to the addresses they redirect to

	key  *rsa.PrivateKey
	mu   sync.Mutex
	open map[string]url.Values // sign-ins in progress, by their code
}

// Start runs an issuer until the test ends.
func Start(t testing.TB) *Issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i := &Issuer{key: key, Signer: Signer(key), open: map[string]url.Values{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", i.discovery)
	mux.HandleFunc("GET /keys", i.keys)
	mux.HandleFunc("POST /token", i.token)
	server := httptest.NewServer(i.redirecting(mux))
	t.Cleanup(server.Close)
	i.URL = server.URL
	return i
}

// Signer returns a signer with the key, which claims to be the issuer's key.
func Signer(key *rsa.PrivateKey) jose.SigningKey {
	return jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: keyID}}
}

// redirecting redirects requests for the paths in Redirects.
func (i *Issuer) redirecting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to := i.Redirects[r.URL.Path]; to != "" {
			http.Redirect(w, r, to, http.StatusTemporaryRedirect)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Authorize plays the person who consents. It takes the address that the person
// was sent to, and returns the state and the code that the person comes back
// with.
func (i *Issuer) Authorize(address string) (state, code string, err error) {
	asked, err := url.Parse(address)
	if err != nil {
		return "", "", err
	}
	query := asked.Query()
	if asked.Path != "/authorize" || query.Get("client_id") != ClientID || query.Get("code_challenge_method") != "S256" || query.Get("response_type") != "code" {
		return "", "", fmt.Errorf("the issuer does not understand %s", address)
	}
	code = rand.Text()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.open[code] = query
	return query.Get("state"), code, nil
}

func (i *Issuer) discovery(w http.ResponseWriter, _ *http.Request) {
	found := map[string]any{
		"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token", "jwks_uri": i.URL + "/keys",
		"id_token_signing_alg_values_supported": []string{"RS256"},
	}
	maps.Copy(found, i.Discovery)
	answer(w, found)
}

func (i *Issuer) keys(w http.ResponseWriter, _ *http.Request) {
	answer(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.key.Public(), KeyID: keyID, Algorithm: "RS256", Use: "sig"}}})
}

// token answers a code with a token, once.
func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	id, secret, _ := r.BasicAuth()
	id, _ = url.QueryUnescape(id)
	secret, _ = url.QueryUnescape(secret)
	begun := i.redeem(r.FormValue("code"))
	challenge := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if begun == nil || id != ClientID || secret != ClientSecret || r.FormValue("redirect_uri") != begun.Get("redirect_uri") ||
		base64.RawURLEncoding.EncodeToString(challenge[:]) != begun.Get("code_challenge") {
		http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
		return
	}
	claims := map[string]any{
		"iss": i.URL, "sub": "1", "aud": ClientID, "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
		"nonce": begun.Get("nonce"), "email": Email, "email_verified": true,
	}
	maps.Copy(claims, i.Claims)
	token, err := i.sign(claims)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": token})
}

// redeem returns the sign-in of the code, once.
func (i *Issuer) redeem(code string) url.Values {
	i.mu.Lock()
	defer i.mu.Unlock()
	begun := i.open[code]
	delete(i.open, code)
	return begun
}

func (i *Issuer) sign(claims map[string]any) (string, error) {
	text, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	if i.Unsigned {
		return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString(text) + ".", nil
	}
	signer, err := jose.NewSigner(i.Signer, nil)
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(text)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // fails only if the client has gone
}
