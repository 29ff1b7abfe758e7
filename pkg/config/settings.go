package config

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// NATS is where the queue is.
type NATS struct {
	NATSURL URL `name:"nats-url" default:"nats://127.0.0.1:4222" help:"NATS servers, one or several separated by commas."`
}

// Validate refuses an address of the wrong form.
func (n *NATS) Validate() error { return n.NATSURL.Check("nats-url", "nats", "tls", "ws", "wss") }

// Redis is where the token cache and quota counters are.
type Redis struct {
	RedisURL URL `name:"redis-url" default:"redis://127.0.0.1:6379/0" help:"Redis: the token cache and quota counters."`
}

// Validate refuses an address of the wrong form.
func (r *Redis) Validate() error { return r.RedisURL.Check("redis-url", "redis", "rediss") }

// ClickHouse is where the tables are.
type ClickHouse struct {
	ClickHouseURL     URL    `name:"clickhouse-url" default:"http://127.0.0.1:8123/logboom" help:"ClickHouse: http(s)://host:8123/database."`
	ClickHouseCluster string `name:"clickhouse-cluster" help:"Cluster whose servers all hold the tables, as ClickHouse calls it; empty: one server."`
}

// clusterName is what a cluster may be called: the name becomes part of SQL.
var clusterName = regexp.MustCompile(`^[0-9A-Za-z_.-]{1,64}$`)

// databaseName is what a database may be called, for the same reason.
var databaseName = regexp.MustCompile(`^[0-9A-Za-z_-]{1,64}$`)

// Validate refuses an address or a name of the wrong form.
func (c *ClickHouse) Validate() error {
	if c.ClickHouseCluster != "" && !clusterName.MatchString(c.ClickHouseCluster) {
		return fmt.Errorf("--clickhouse-cluster (%s): %q is not 1 to 64 of letters, digits, _ . and -", Variable("clickhouse-cluster"), c.ClickHouseCluster)
	}
	return c.checkAddress()
}

// checkAddress holds the address to what pkg/clickhouse takes: one server and a
// database, over HTTP.
func (c *ClickHouse) checkAddress() error {
	if err := c.ClickHouseURL.Check("clickhouse-url", "http", "https"); err != nil {
		return err
	}
	parsed, err := url.Parse(c.ClickHouseURL.Reveal())
	if err != nil || parsed.Hostname() == "" {
		return fmt.Errorf("--clickhouse-url (%s): must be the address of one server", Variable("clickhouse-url"))
	}
	if database := strings.TrimPrefix(parsed.Path, "/"); !databaseName.MatchString(database) {
		return fmt.Errorf("--clickhouse-url (%s): must end with a database of 1 to 64 letters, digits, _ and -, such as /logboom", Variable("clickhouse-url"))
	}
	return nil
}

// Queue says how the JetStream streams are made. It counts on first start;
// later, a differing number of shards is refused.
type Queue struct {
	Shards      int  `default:"0" help:"Shards of the queue, fixed when it is created; 0 takes what is there, or 4."`
	Replicas    int  `default:"1" help:"Copies of each stream: 1, or 3 in a cluster."`
	StreamBytes Size `default:"0" help:"Bound of each stream's size; a full stream answers 503. 0 takes what is there, or 4GiB (standalone: a share of the disk)."`
}

// Validate refuses numbers out of range.
func (q *Queue) Validate() error {
	if q.Shards < 0 || q.Shards > 256 {
		return fmt.Errorf("--shards (%s): %d is not within 0 to 256", Variable("shards"), q.Shards)
	}
	if q.Replicas < 1 || q.Replicas > 5 {
		return fmt.Errorf("--replicas (%s): %d is not within 1 to 5", Variable("replicas"), q.Replicas)
	}
	if q.StreamBytes != 0 && q.StreamBytes < 16*MiB {
		return fmt.Errorf("--stream-bytes (%s): %s is under 16MiB", Variable("stream-bytes"), q.StreamBytes)
	}
	return nil
}

// Process is what every process has: how it logs, where its metrics are, and
// how long it may take to stop.
type Process struct {
	OpsAddr     string        `default:":9100" help:"Address of metrics, health and pprof; without a host it is loopback, except on Kubernetes."`
	LogLevel    string        `default:"info" enum:"debug,info,warn,error" help:"Least level of log lines: ${enum}."`
	LogFormat   string        `default:"auto" enum:"auto,text,json" help:"Form of log lines: ${enum}; auto is text on a terminal, else json."`
	StopTimeout time.Duration `default:"30s" help:"How long a graceful stop may take."`
}

// Validate refuses a time to stop that leaves none.
func (p *Process) Validate() error {
	if p.StopTimeout < time.Second {
		return fmt.Errorf("--stop-timeout (%s): %s is under 1s", Variable("stop-timeout"), p.StopTimeout)
	}
	return nil
}

// Bootstrap names what the first start makes in an empty store.
type Bootstrap struct {
	AdminEmail    string `name:"bootstrap-admin-email" help:"First start: the admin's e-mail address."`
	AdminPassword Secret `name:"bootstrap-admin-password" help:"First start: the admin's password."`
	APIKey        Secret `name:"bootstrap-api-key" help:"First start: an API key, 32 characters or more."`
	Project       string `name:"bootstrap-project" help:"First start: a project."`
	Token         Secret `name:"bootstrap-token" help:"First start: the project's token (made by: admin token new)."`
}

// Intake bounds what one request may hold and how long it may take.
type Intake struct {
	IngestAddr     string        `default:":8080" help:"Address of the ingest routes."`
	BodyBytes      Size          `default:"10MiB" help:"Largest body as sent."`
	DecodedBytes   Size          `default:"64MiB" help:"Largest body after decompression."`
	ContainerBytes Size          `default:"128MiB" help:"Largest body of container logs, as sent and after decompression."`
	RecordBytes    Size          `default:"1MiB" help:"Largest record."`
	MetadataKeys   int           `default:"128" help:"Most keys of a record's metadata or tags; further ones are cut and marked."`
	KeyBytes       int           `default:"256" help:"Longest key; longer ones are cut and marked."`
	ValueBytes     Size          `default:"16KiB" help:"Longest value; longer ones are cut and marked."`
	JSONDepth      int           `name:"json-depth" default:"64" help:"Deepest nesting of JSON."`
	HeaderTimeout  time.Duration `default:"5s" help:"To read a request's head."`
	BodyTimeout    time.Duration `default:"60s" help:"To read a request whole."`
	IdleTimeout    time.Duration `default:"120s" help:"Of a kept-alive connection; container senders need 75s or more."`
	BodyMemory     Size          `default:"256MiB" help:"Memory of all bodies under way together; over it, 503."`
	MaxConnections int           `default:"20000" help:"Open connections; further ones wait."`
}

// Validate refuses bounds that nothing could pass.
func (i *Intake) Validate() error {
	for _, bound := range []struct {
		flag  string
		value int64
	}{
		{"body-bytes", int64(i.BodyBytes)}, {"decoded-bytes", int64(i.DecodedBytes)},
		{"container-bytes", int64(i.ContainerBytes)}, {"record-bytes", int64(i.RecordBytes)},
		{"metadata-keys", int64(i.MetadataKeys)}, {"key-bytes", int64(i.KeyBytes)}, {"value-bytes", int64(i.ValueBytes)},
		{"json-depth", int64(i.JSONDepth)}, {"header-timeout", int64(i.HeaderTimeout)}, {"body-timeout", int64(i.BodyTimeout)},
		{"idle-timeout", int64(i.IdleTimeout)}, {"max-connections", int64(i.MaxConnections)}, {"body-memory", int64(i.BodyMemory)},
	} {
		if bound.value <= 0 {
			return fmt.Errorf("--%s (%s): must be above zero", bound.flag, Variable(bound.flag))
		}
	}
	if i.BodyMemory < 2*max(i.DecodedBytes, i.ContainerBytes) {
		return fmt.Errorf("--body-memory (%s): %s is under twice --decoded-bytes or --container-bytes, so that its largest body would never be taken", Variable("body-memory"), i.BodyMemory)
	}
	return nil
}

// Admin is where operators and scripts are answered, and how people sign in.
type Admin struct {
	AdminAddr string `default:":8081" help:"Address of the pages and the JSON API."`
	PublicURL string `name:"public-url" help:"Where people reach the pages, such as https://logs.example.org. Without it pages are served on loopback only, unless this process is reached by https."`
	IngestURL string `name:"ingest-url" help:"Where senders reach ingest, such as https://in.example.org, for the lines that pages offer; without it, the pages' own host and ingest's port."`

	TrustedProxies []string `help:"Networks of the proxies in front of the pages, such as 10.20.0.0/16, separated by commas: whom a request is from is believed of their X-Forwarded-For, and of nobody else's."`

	OIDCIssuer       string `name:"oidc-issuer" help:"OpenID Connect issuer of company accounts, as it spells itself. Users that exist here may sign in by their verified e-mail address."`
	OIDCClientID     string `name:"oidc-client-id" help:"This installation's client ID at the issuer; its redirect address is PUBLIC-URL/sign-in/company/back."`
	OIDCClientSecret Secret `name:"oidc-client-secret" help:"This installation's client secret at the issuer."`
}

// Proxies are the networks of TrustedProxies, of which Validate approved.
func (a *Admin) Proxies() ([]netip.Prefix, error) {
	networks := make([]netip.Prefix, len(a.TrustedProxies))
	for i, entry := range a.TrustedProxies {
		network, err := netip.ParsePrefix(entry)
		if err != nil || network.Addr().Is4In6() {
			return nil, fmt.Errorf("--trusted-proxies (%s): %.100q is no network such as 10.20.0.0/16", Variable("trusted-proxies"), entry)
		}
		if network.Bits() == 0 {
			return nil, fmt.Errorf("--trusted-proxies (%s): %s is everybody, who could then say to be anybody", Variable("trusted-proxies"), entry)
		}
		networks[i] = network.Masked()
	}
	return networks, nil
}

// Validate refuses addresses of the wrong form and half of an issuer.
func (a *Admin) Validate() error {
	if _, err := a.Proxies(); err != nil {
		return err
	}
	for _, address := range []struct{ setting, value string }{{"public-url", a.PublicURL}, {"ingest-url", a.IngestURL}} {
		if address.value == "" {
			continue
		}
		parsed, err := url.Parse(address.value)
		if err != nil || parsed.Host == "" || parsed.User != nil || strings.Trim(parsed.Path, "/") != "" || parsed.RawQuery != "" || parsed.Fragment != "" ||
			parsed.Scheme != "http" && parsed.Scheme != "https" {
			return fmt.Errorf("--%s (%s): must be an address such as https://logs.example.org, without a path", address.setting, Variable(address.setting))
		}
	}
	if a.OIDCIssuer == "" && a.OIDCClientID == "" && !a.OIDCClientSecret.IsSet() {
		return nil
	}
	if a.OIDCIssuer == "" || a.OIDCClientID == "" || !a.OIDCClientSecret.IsSet() {
		return fmt.Errorf("--oidc-issuer (%s): an issuer, a client ID and a client secret belong together", Variable("oidc-issuer"))
	}
	if a.PublicURL == "" {
		return fmt.Errorf("--public-url (%s): is needed with --oidc-issuer, which sends people back there", Variable("public-url"))
	}
	return nil
}

// Quotas are what a project may send that has no quotas of its own.
type Quotas struct {
	QuotaRate         int64 `default:"0" help:"Records a second, with a burst of ten seconds; 0 is unlimited."`
	QuotaDailyRecords int64 `default:"0" help:"Records a day; 0 is unlimited."`
	QuotaMonthlyBytes Size  `default:"0" help:"Bytes of text a month; 0 is unlimited."`
}

// Validate refuses negative quotas.
func (q *Quotas) Validate() error {
	if q.QuotaRate < 0 {
		return fmt.Errorf("--quota-rate (%s): %d is below zero", Variable("quota-rate"), q.QuotaRate)
	}
	if q.QuotaDailyRecords < 0 {
		return fmt.Errorf("--quota-daily-records (%s): %d is below zero", Variable("quota-daily-records"), q.QuotaDailyRecords)
	}
	return nil
}

// Keys encrypt what must be read again, such as webhook addresses.
type Keys struct {
	SecretKey     Secret   `help:"Key that webhook addresses are encrypted with: 32 bytes in base64 (openssl rand -base64 32)."`
	OldSecretKeys []Secret `help:"Keys used before, so that what they encrypted can still be read."`
}

// Validate refuses keys of another form; the error does not show them.
func (k *Keys) Validate() error {
	if k.SecretKey.IsSet() && !isKey(k.SecretKey) {
		return fmt.Errorf("--secret-key (%s): must be 32 bytes in base64, such as openssl rand -base64 32 prints", Variable("secret-key"))
	}
	for _, old := range k.OldSecretKeys {
		if !isKey(old) {
			return fmt.Errorf("--old-secret-keys (%s): each must be 32 bytes in base64", Variable("old-secret-keys"))
		}
	}
	return nil
}

// isKey takes base64 of either alphabet, padded or not.
func isKey(s Secret) bool {
	text := strings.TrimRight(s.Reveal(), "=")
	for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if key, err := alphabet.DecodeString(text); err == nil && len(key) == 32 {
			return true
		}
	}
	return false
}
