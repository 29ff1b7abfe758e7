package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/logboom/logboom/pkg/secret"
)

type sample struct {
	NATS       `embed:""`
	Redis      `embed:""`
	ClickHouse `embed:""`
	Queue      `embed:""`
	Process    `embed:""`
	Intake     `embed:""`
	Quotas     `embed:""`
	Keys       `embed:""`
	Bootstrap  `embed:""`
}

const (
	hidden    = "hunter2-is-hidden"
	hiddenKey = "aHVudGVyMi1pcy1oaWRkZW4taHVudGVyMi1pcy1oaWQ="
)

func TestFlagAndVariableAreOneToOne(t *testing.T) {
	t.Setenv("LOGBOOM_NATS_URL", "nats://queue:4222")
	t.Setenv("LOGBOOM_STREAM_BYTES", "2g")
	t.Setenv("LOGBOOM_CLICKHOUSE_URL", "https://db:8443/logs")
	var cfg sample
	if _, err := Parse("ingest", "", &cfg, []string{"--shards=8"}, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	if cfg.NATSURL.Reveal() != "nats://queue:4222" || cfg.StreamBytes != 2*GiB || cfg.Shards != 8 || cfg.ClickHouseURL.Reveal() != "https://db:8443/logs" {
		t.Fatalf("read %+v", cfg)
	}
}

func TestBadValueIsRefusedByItsName(t *testing.T) {
	for _, tc := range []struct{ arg, want string }{
		{"--shards=many", "--shards"},
		{"--shards=300", "--shards"},
		{"--replicas=0", "--replicas"},
		{"--stream-bytes=10XB", "--stream-bytes"},
		{"--stream-bytes=99999999TiB", "--stream-bytes"},
		{"--nats-url=http://u:" + hidden + "@h", "--nats-url"},
		{"--redis-url=" + hidden, "--redis-url"},
		{"--clickhouse-url=ftp://u:" + hidden + "@h/x", "--clickhouse-url"},
		{"--clickhouse-url=http://u:" + hidden + "%zz@h/x", "--clickhouse-url"},
		{"--log-level=loud", "--log-level"},
		{"--stop-timeout=0s", "--stop-timeout"},
		{"--json-depth=0", "--json-depth"},
		{"--body-memory=100MiB", "--body-memory"},
		{"--quota-rate=-1", "--quota-rate"},
		{"--quota-daily-records=-5", "--quota-daily-records"},
		{"--secret-key=" + hidden, "--secret-key"},
		{"--old-secret-keys=" + hidden, "--old-secret-keys"},
		{"--no-such=1", "--no-such"},
	} {
		t.Run(tc.arg, func(t *testing.T) {
			_, err := Parse("ingest", "", &sample{}, []string{tc.arg}, &bytes.Buffer{})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v does not name %s", err, tc.want)
			}
			if strings.Contains(err.Error(), hidden) {
				t.Fatalf("error shows the secret: %v", err)
			}
		})
	}
}

func TestBadVariableIsRefusedByItsName(t *testing.T) {
	t.Setenv("LOGBOOM_SHARDS", "many")
	_, err := Parse("ingest", "", &sample{}, nil, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "LOGBOOM_SHARDS") {
		t.Fatalf("error %v does not name the variable", err)
	}
}

func TestSettingsArePrintedWithSecretsMasked(t *testing.T) {
	var cfg sample
	args := []string{
		"--nats-url=nats://user:" + hidden + "@a:1,nats://user:" + hidden + "@b:2",
		"--clickhouse-url=http://h:8123/db?password=" + hidden,
		"--redis-url=redis://:" + hidden + "@h:1/0",
		"--bootstrap-token=" + hidden, "--bootstrap-admin-password=" + hidden,
		"--secret-key=" + hiddenKey, "--old-secret-keys=" + hiddenKey + "," + hiddenKey,
	}
	settings, err := Parse("ingest", "", &cfg, args, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	settings.Log(slog.New(slog.NewJSONHandler(&out, nil)))
	asJSON, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	inside := struct{ unexported sample }{cfg}
	all := out.String() + fmt.Sprintf("%v %+v %#v %s %v %+v %#v", cfg, cfg, cfg, asJSON, inside, inside, inside)
	if strings.Contains(all, hidden) || strings.Contains(all, hiddenKey) {
		t.Fatalf("a secret was printed: %s", all)
	}
	if !strings.Contains(out.String(), `"body-bytes":"10MiB"`) || !strings.Contains(out.String(), "nats://***@a:1,nats://***@b:2") {
		t.Fatalf("settings are missing: %s", out.String())
	}
}

func TestHelpIsPrintedWithVariables(t *testing.T) {
	var out bytes.Buffer
	_, err := Parse("ingest", "Takes logs in.", &sample{}, []string{"--help"}, &out)
	if !errors.Is(err, ErrHelp) {
		t.Fatalf("error is %v", err)
	}
	if !strings.Contains(out.String(), "LOGBOOM_NATS_URL") {
		t.Fatalf("help does not name the variables: %s", out.String())
	}
}

func TestSizesRoundTrip(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Size{"0": 0, "512": 512, "64KiB": 64 * KiB, "10m": 10 * MiB, "3 GiB": 3 * GiB, "7b": 7} {
		var got Size
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Fatalf("%q: %v, %v", text, got, err)
		}
		var back Size
		if err := back.UnmarshalText([]byte(got.String())); err != nil || back != got {
			t.Fatalf("%q prints as %q", text, got)
		}
	}
}

func TestAddressesOfPagesAndIssuerAreCheckedByName(t *testing.T) {
	t.Parallel()
	secret := secret.New("s")
	for name, tc := range map[string]struct {
		settings Admin
		want     string // in the error; "": good
	}{
		"nothing":            {Admin{}, ""},
		"all":                {Admin{PublicURL: "https://logs.example.org", IngestURL: "http://in:8080/", OIDCIssuer: "https://a", OIDCClientID: "c", OIDCClientSecret: secret}, ""},
		"public with a path": {Admin{PublicURL: "https://logs.example.org/logboom"}, "LOGBOOM_PUBLIC_URL"},
		"public is no URL":   {Admin{PublicURL: "logs.example.org"}, "LOGBOOM_PUBLIC_URL"},
		"ingest by ftp":      {Admin{IngestURL: "ftp://in"}, "LOGBOOM_INGEST_URL"},
		"half an issuer":     {Admin{PublicURL: "https://l", OIDCIssuer: "https://a", OIDCClientID: "c"}, "LOGBOOM_OIDC_ISSUER"},
		"proxies":            {Admin{TrustedProxies: []string{"10.20.0.0/16", "2001:db8::/32", "192.0.2.7/32"}}, ""},
		"proxy by name":      {Admin{TrustedProxies: []string{"10.20.0.0/16", "proxy"}}, "LOGBOOM_TRUSTED_PROXIES"},
		"proxy, mapped":      {Admin{TrustedProxies: []string{"::ffff:10.20.0.0/112"}}, "LOGBOOM_TRUSTED_PROXIES"},
		"everybody a proxy":  {Admin{TrustedProxies: []string{"0.0.0.0/0"}}, "LOGBOOM_TRUSTED_PROXIES"},
		"nowhere to go back": {Admin{OIDCIssuer: "https://a", OIDCClientID: "c", OIDCClientSecret: secret}, "LOGBOOM_PUBLIC_URL"},
	} {
		err := tc.settings.Validate()
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
