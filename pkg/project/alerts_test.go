package project

import (
	"bytes"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/embedded/natstest"
	"github.com/logboom/logboom/pkg/secret"
)

// A webhook's address with a canary where its secret is.
const (
	webhook       = "https://hooks.example.org/services/" + webhookCanary + "/WXYZ"
	webhookCanary = "canary-5e3f0c"
)

func newKey(fill byte) secret.Value {
	return secret.New(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, keyBytes)))
}

// sealingStore opens a store of its own with a key.
func sealingStore(t testing.TB) *Store {
	t.Helper()
	return connectWith(t, natstest.Start(t, embedded.NATSConfig{DataDir: t.TempDir()}).URL(), Config{Key: newKey(1)})
}

// setAlerts replaces a project's alerts.
func setAlerts(t testing.TB, store *Store, name string, a Alerts) error {
	t.Helper()
	_, err := store.ChangeAlerts(t.Context(), name, func(current *Alerts) { *current = a })
	return err
}

func TestAlertsAreKeptUntilTheyAreCleared(t *testing.T) {
	t.Parallel()
	store := sealingStore(t)
	p, err := store.CreateProject(t.Context(), "my.shop")
	if err != nil {
		t.Fatal(err)
	}
	if a, err := store.Alerts(t.Context(), "my.shop"); err != nil || a.WebhookURL.IsSet() {
		t.Errorf("before any were set: %+v: %v", a, err)
	}
	if err := setAlerts(t, store, "my.shop", Alerts{secret.New(webhook), "", "WARN"}); err != nil {
		t.Fatal(err)
	}
	want := RedactedAlerts{"hooks.example.org", "WXYZ", "auto", "warn"}
	for name, ask := range map[string]func() (Alerts, error){
		"by name": func() (Alerts, error) { return store.Alerts(t.Context(), "my.shop") },
		"by ID":   func() (Alerts, error) { return store.AlertsByID(t.Context(), p.ID) },
	} {
		a, err := ask()
		if err != nil || a.WebhookURL.Reveal() != webhook || a.Redacted() != want {
			t.Errorf("%s: %+v: %v", name, a.Redacted(), err)
		}
	}
	changed, err := store.ChangeAlerts(t.Context(), "my.shop", func(a *Alerts) { a.MinSeverity = "" })
	if err != nil || changed.WebhookURL.Reveal() != webhook || changed.MinSeverity != "" {
		t.Errorf("%+v: %v", changed.Redacted(), err)
	}
	for range 2 {
		if err := store.ClearAlerts(t.Context(), "my.shop"); err != nil {
			t.Error(err)
		}
	}
	if a, err := store.Alerts(t.Context(), "my.shop"); err != nil || a != (Alerts{}) {
		t.Errorf("after they were cleared: %+v: %v", a.Redacted(), err)
	}
}

func TestAlertsOfNoProjectAreNotFound(t *testing.T) {
	t.Parallel()
	store := sealingStore(t)
	_, err := store.Alerts(t.Context(), "missing")
	_, byID := store.AlertsByID(t.Context(), "missing~00000000")
	_, noID := store.AlertsByID(t.Context(), "*")
	set := setAlerts(t, store, "missing", Alerts{WebhookURL: secret.New(webhook)})
	for _, err := range []error{err, byID, noID, set, store.ClearAlerts(t.Context(), "missing")} {
		if !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
	}
}

func TestAlertsChangedAtOnceAreAllApplied(t *testing.T) {
	t.Parallel()
	store := sealingStore(t)
	if _, err := store.CreateProject(t.Context(), "demo"); err != nil {
		t.Fatal(err)
	}
	if err := setAlerts(t, store, "demo", Alerts{WebhookURL: secret.New("https://h/")}); err != nil {
		t.Fatal(err)
	}
	var callers sync.WaitGroup
	const many = 8
	for range many {
		callers.Go(func() {
			_, err := store.ChangeAlerts(t.Context(), "demo", func(a *Alerts) {
				a.WebhookURL = secret.New(a.WebhookURL.Reveal() + "x")
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	a, err := store.Alerts(t.Context(), "demo")
	if want := "https://h/" + strings.Repeat("x", many); err != nil || a.WebhookURL.Reveal() != want {
		t.Errorf("%q: %v", a.WebhookURL.Reveal(), err)
	}
}

func TestWebhookAddressIsNotReadableInTheRecord(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := natstest.Start(t, embedded.NATSConfig{DataDir: dir})
	store := connectWith(t, server.URL(), Config{Key: newKey(1)})
	if _, err := store.CreateProject(t.Context(), "demo"); err != nil {
		t.Fatal(err)
	}
	if err := setAlerts(t, store, "demo", Alerts{WebhookURL: secret.New(webhook)}); err != nil {
		t.Fatal(err)
	}
	natstest.Stop(t, server)
	read := 0
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		contents, err := os.ReadFile(path)
		read += len(contents)
		for _, part := range []string{webhookCanary, "hooks.example.org", base64.StdEncoding.EncodeToString([]byte(webhook))[:40]} {
			if bytes.Contains(contents, []byte(part)) {
				t.Errorf("%q is in %s", part, path)
			}
		}
		return err
	})
	if err != nil || read < 1000 {
		t.Errorf("%d bytes were read: %v", read, err)
	}
}

func TestSealedAddressIsDecryptedForItsOwnProjectOnly(t *testing.T) {
	t.Parallel()
	store := sealingStore(t)
	for _, name := range []string{"mine", "theirs"} {
		p, err := store.CreateProject(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if name == "mine" {
			err = setAlerts(t, store, name, Alerts{WebhookURL: secret.New(webhook)})
		} else { // a document that somebody copied
			err = copyAlerts(t, store, "mine", p.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.Alerts(t.Context(), "theirs"); !errors.Is(err, ErrNoKey) || strings.Contains(err.Error(), webhookCanary) {
		t.Errorf("another project's address: %v", err)
	}
	if err := setAlerts(t, store, "theirs", Alerts{WebhookURL: secret.New(webhook)}); err != nil {
		t.Errorf("set again: %v", err)
	}
}

func copyAlerts(t *testing.T, store *Store, from, to string) error {
	t.Helper()
	p, err := store.Project(t.Context(), from)
	if err != nil {
		return err
	}
	var document alertsDocument
	if _, err := store.alerts.Load(t.Context(), alertsKey(p.ID), &document); err != nil {
		return err
	}
	_, err = store.alerts.Create(t.Context(), alertsKey(to), document)
	return err
}

func TestAlertsNeedTheKey(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, embedded.NATSConfig{DataDir: t.TempDir()})
	first := connectWith(t, server.URL(), Config{Key: newKey(1)})
	if _, err := first.CreateProject(t.Context(), "demo"); err != nil {
		t.Fatal(err)
	}
	if err := setAlerts(t, first, "demo", Alerts{WebhookURL: secret.New(webhook)}); err != nil {
		t.Fatal(err)
	}
	keyless := connect(t, server.URL())
	_, alertsErr := keyless.Alerts(t.Context(), "demo")
	_, resealErr := keyless.ResealAlerts(t.Context())
	setErr := setAlerts(t, keyless, "demo", Alerts{WebhookURL: secret.New(webhook)})
	other := connectWith(t, server.URL(), Config{Key: newKey(2)})
	_, otherErr := other.Alerts(t.Context(), "demo")
	_, otherResealErr := other.ResealAlerts(t.Context())
	for _, err := range []error{alertsErr, resealErr, setErr, otherErr, otherResealErr} {
		if !errors.Is(err, ErrNoKey) {
			t.Error(err)
		}
	}
	if err := setAlerts(t, other, "demo", Alerts{WebhookURL: secret.New(webhook)}); err != nil {
		t.Errorf("what a lost key sealed cannot be replaced: %v", err)
	}
}

func TestKeyCanBeChanged(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, embedded.NATSConfig{DataDir: t.TempDir()})
	old := connectWith(t, server.URL(), Config{Key: newKey(1)})
	for _, name := range []string{"a", "b"} {
		if _, err := old.CreateProject(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if err := setAlerts(t, old, name, Alerts{WebhookURL: secret.New(webhook + name)}); err != nil {
			t.Fatal(err)
		}
	}
	both := connectWith(t, server.URL(), Config{Key: newKey(2), OldKeys: []secret.Value{newKey(1)}})
	for _, want := range []int{2, 0} {
		if n, err := both.ResealAlerts(t.Context()); err != nil || n != want {
			t.Errorf("resealed %d, want %d: %v", n, want, err)
		}
	}
	fresh := connectWith(t, server.URL(), Config{Key: newKey(2)})
	for _, name := range []string{"a", "b"} {
		if a, err := fresh.Alerts(t.Context(), name); err != nil || a.WebhookURL.Reveal() != webhook+name {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAlertsAreRefusedByFieldWithoutTheAddress(t *testing.T) {
	t.Parallel()
	const canary = webhookCanary
	for _, address := range []string{
		"", canary, "ftp://" + canary + "/", "https:" + canary, "https:///" + canary, "https://:443/" + canary, "//" + canary + "/x",
		"https://user:" + canary + "@host/", "https://" + canary + "@host/", "https://host/" + canary + "#x", "https://host/" + canary + " x",
		"https://host/" + canary + "\n", "https://h\u00f6st/" + canary, "https://host:0/" + canary, "https://host:65536/" + canary,
		"https://host:x/" + canary, "https://host/%zz" + canary, "https://host/" + strings.Repeat(canary, 200), "javascript:" + canary,
	} {
		a := Alerts{WebhookURL: secret.New(address)}
		var invalid *InvalidError
		err := a.Validate()
		if !errors.As(err, &invalid) || invalid.Field != "webhook_url" || strings.Contains(err.Error(), canary) {
			t.Errorf("%.60q: %v", address, err)
		}
	}
	for field, a := range map[string]Alerts{
		"format":       {secret.New(webhook), "irc", ""},
		"min_severity": {secret.New(webhook), "slack", "loud"},
	} {
		var invalid *InvalidError
		if err := a.Validate(); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, address := range []string{"http://10.0.0.1:8080", "https://[::1]:443/x?token=%20", "HTTPS://Host/"} {
		if fault := checkWebhookURL(address); fault != "" {
			t.Errorf("%s: %s", address, fault)
		}
	}
	for _, format := range AlertFormats() {
		if err := (&Alerts{secret.New(webhook), format, "f"}).Validate(); err != nil {
			t.Error(err)
		}
	}
}

func FuzzWebhookAddress(f *testing.F) {
	for _, seed := range []string{webhook, "http://a", "https://u:p@h/#x", "https://[::1]:0/", "\x00", "https://h:99999/", "//0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, address string) {
		a := Alerts{WebhookURL: secret.New(address)}
		err := a.Validate()
		shown := a.Redacted()
		if err != nil {
			if shown.Host+shown.Last4 != "" {
				t.Fatalf("%q is shown as %+v, though it is refused", address, shown)
			}
			if len(address) > 20 && strings.Contains(err.Error(), address) {
				t.Fatalf("the error shows the address: %v", err)
			}
			return
		}
		if shown.Host == "" || len(shown.Last4) != 4 || !strings.HasSuffix(address, shown.Last4) || !strings.Contains(address, shown.Host) {
			t.Fatalf("%q is shown as %+v", address, shown)
		}
		if strings.ContainsFunc(shown.Host+shown.Last4, unicode.IsControl) {
			t.Fatalf("control characters in %+v", shown)
		}
	})
}

func TestKeyIsDecodedFromEveryBase64(t *testing.T) {
	t.Parallel()
	value := bytes.Repeat([]byte{0xfb, 0xff}, keyBytes/2)
	var ids []string
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		id, _, err := decodeKey(secret.New(" " + encoding.EncodeToString(value) + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if strings.Join(ids, "") != strings.Repeat(ids[0], 4) {
		t.Errorf("IDs %q", ids)
	}
	if id, _, _ := decodeKey(newKey(1)); id == ids[0] {
		t.Error("two keys have one ID")
	}
	for _, text := range []string{"", "x", newKey(1).Reveal()[2:], newKey(1).Reveal() + "AAAA", strings.Repeat("*", 44)} {
		if _, _, err := decodeKey(secret.New(text)); !errors.Is(err, errBadKey) || text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestKeyFileIsCreatedOnceByOneOfMany(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "deep", "secret.key")
	keys := make([]secret.Value, 20)
	var callers sync.WaitGroup
	for i := range keys {
		callers.Go(func() {
			var err error
			if keys[i], err = LoadOrCreateKey(path); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	for _, key := range keys {
		if key.Reveal() != keys[0].Reveal() || !key.IsSet() {
			t.Error("two callers have two keys")
		}
	}
	if err := (&Config{Key: keys[0]}).Validate(); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v: %v", info.Mode(), err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("%v: %v", left, err)
	}
}

func TestInvalidKeyFileIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, c := range map[string]struct {
		contents string
		mode     os.FileMode
	}{
		"empty": {"", 0o600},
		"short": {"canary", 0o600},
		"open":  {newKey(1).Reveal(), 0o644},
		"huge":  {strings.Repeat("canary", 1000), 0o600},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(c.contents), c.mode); err != nil {
			t.Fatal(err)
		}
		_, err := LoadOrCreateKey(path)
		if err == nil || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := LoadOrCreateKey(filepath.Join(dir, "empty", "below-a-file")); err == nil {
		t.Error("a key file below a file")
	}
}

func TestAlertsDoNotWakeTheWatchersOfTokens(t *testing.T) {
	t.Parallel()
	store := sealingStore(t)
	if _, err := store.CreateProject(t.Context(), "demo"); err != nil {
		t.Fatal(err)
	}
	before, err := store.projects.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := setAlerts(t, store, "demo", Alerts{WebhookURL: secret.New(webhook)}); err != nil {
		t.Fatal(err)
	}
	if after, err := store.projects.Revision(t.Context()); err != nil || after != before {
		t.Errorf("revision %d, before %d: %v", after, before, err)
	}
	if alerts, err := store.alerts.List(t.Context()); err != nil || len(alerts) != 1 {
		t.Errorf("%d alerts in their bucket: %v", len(alerts), err)
	}
}
