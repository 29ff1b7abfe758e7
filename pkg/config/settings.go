package config

import (
	"encoding/base64"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// NATS holds the address of the queue.
type NATS struct {
	NATSURL URL `name:"nats-url" default:"nats://127.0.0.1:4222" help:"NATS servers, one or several separated by commas."`
}

// Validate checks the form of the address.
func (n *NATS) Validate() error { return n.NATSURL.Check("nats-url", "nats", "tls", "ws", "wss") }

// Redis holds the address of the token cache and the quota counters.
type Redis struct {
	RedisURL URL `name:"redis-url" default:"redis://127.0.0.1:6379/0" help:"Redis for the token cache and the quota counters."`
}

// Validate checks the form of the address.
func (r *Redis) Validate() error { return r.RedisURL.Check("redis-url", "redis", "rediss") }

// ClickHouse holds the address of the tables.
type ClickHouse struct {
	ClickHouseURL     URL    `name:"clickhouse-url" default:"http://127.0.0.1:8123/logboom" help:"ClickHouse: http(s)://host:8123/database."`
	ClickHouseCluster string `name:"clickhouse-cluster" help:"Name of the ClickHouse cluster whose servers all hold the tables; empty for one server."`
}

// The names of clusters and databases become part of SQL.
var (
	clusterName  = regexp.MustCompile(`^[0-9A-Za-z_.-]{1,64}$`)
	databaseName = regexp.MustCompile(`^[0-9A-Za-z_-]{1,64}$`)
)

// Validate checks the form of the names and the address: one server and a
// database, over HTTP.
func (c *ClickHouse) Validate() error {
	if c.ClickHouseCluster != "" && !clusterName.MatchString(c.ClickHouseCluster) {
		return invalid("clickhouse-cluster", "%q must have 1 to 64 characters: letters, digits, _ . and -", c.ClickHouseCluster)
	}
	if err := c.ClickHouseURL.Check("clickhouse-url", "http", "https"); err != nil {
		return err
	}
	parsed, err := url.Parse(c.ClickHouseURL.Reveal())
	if err != nil || parsed.Hostname() == "" {
		return invalid("clickhouse-url", "must be the address of one server")
	}
	if database := strings.TrimPrefix(parsed.Path, "/"); !databaseName.MatchString(database) {
		return invalid("clickhouse-url", "must end with a database of 1 to 64 letters, digits, _ and -, such as /logboom")
	}
	return nil
}

// Queue says how the JetStream streams are created. It counts on the first start;
// later a different number of shards is an error.
type Queue struct {
	Shards      int  `default:"0" help:"Shards of the queue, fixed when it is created; 0 uses what exists, or creates 4."`
	Replicas    int  `default:"1" help:"Copies of each stream: 1, or 3 in a cluster."`
	StreamBytes Size `default:"0" help:"Bound of each stream's size; a full stream answers 503. 0 uses what exists, or creates 4GiB (standalone: a share of the disk)."`
}

// Validate checks the ranges.
func (q *Queue) Validate() error {
	if q.Shards < 0 || q.Shards > 256 {
		return invalid("shards", "%d is not within 0 to 256", q.Shards)
	}
	if q.Replicas < 1 || q.Replicas > 5 {
		return invalid("replicas", "%d is not within 1 to 5", q.Replicas)
	}
	if q.StreamBytes != 0 && q.StreamBytes < 16*MiB {
		return invalid("stream-bytes", "%s is less than 16MiB", q.StreamBytes)
	}
	return nil
}

// Process holds the settings of every process: its logs, its operations port and
// its stop.
type Process struct {
	OpsAddr     string        `default:":9100" help:"Address of metrics, health and pprof; without a host it is loopback, except on Kubernetes."`
	LogLevel    string        `default:"info" enum:"debug,info,warn,error" help:"Lowest level of log lines: ${enum}."`
	LogFormat   string        `default:"auto" enum:"auto,text,json" help:"Format of log lines: ${enum}; auto is text on a terminal, else json."`
	StopTimeout time.Duration `default:"30s" help:"How long a graceful stop may take."`
}

// Validate checks that there is time for a stop.
func (p *Process) Validate() error {
	if p.StopTimeout < time.Second {
		return invalid("stop-timeout", "%s is less than 1s", p.StopTimeout)
	}
	return nil
}

// Bootstrap names what the first start creates in an empty store.
type Bootstrap struct {
	AdminEmail    string `name:"bootstrap-admin-email" help:"First start: the admin's e-mail address."`
	AdminPassword Secret `name:"bootstrap-admin-password" help:"First start: the admin's password."`
	APIKey        Secret `name:"bootstrap-api-key" help:"First start: an API key, 32 characters or more."`
	Project       string `name:"bootstrap-project" help:"First start: a project."`
	Token         Secret `name:"bootstrap-token" help:"First start: the project's token (create one with: admin token new)."`
}

// Intake bounds what one request may hold and how long it may take.
type Intake struct {
	IngestAddr     string        `default:":8080" help:"Address of the ingest routes."`
	BodyBytes      Size          `default:"10MiB" help:"Largest body as sent."`
	DecodedBytes   Size          `default:"64MiB" help:"Largest body after decompression."`
	ContainerBytes Size          `default:"128MiB" help:"Largest body of container logs, as sent and after decompression."`
	RecordBytes    Size          `default:"1MiB" help:"Largest record."`
	MetadataKeys   int           `default:"128" help:"Most keys of a record's metadata or tags; further keys are dropped, and the record is marked."`
	KeyBytes       int           `default:"256" help:"Longest key; longer keys are cut and marked."`
	ValueBytes     Size          `default:"16KiB" help:"Longest value; longer values are cut and marked."`
	JSONDepth      int           `name:"json-depth" default:"64" help:"Deepest nesting of JSON."`
	HeaderTimeout  time.Duration `default:"5s" help:"Time to read a request's header."`
	BodyTimeout    time.Duration `default:"60s" help:"Time to read a whole request."`
	IdleTimeout    time.Duration `default:"120s" help:"How long a connection may be idle; container clients need at least 75s."`
	BodyMemory     Size          `default:"256MiB" help:"Memory of all bodies in progress together; beyond it, requests get 503."`
	MaxConnections int           `default:"20000" help:"Most open connections; further ones wait."`
}

// Validate checks that all bounds let something pass.
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
			return invalid(bound.flag, "must be greater than zero")
		}
	}
	if i.BodyMemory < 2*max(i.DecodedBytes, i.ContainerBytes) {
		return invalid("body-memory", "%s is less than twice --decoded-bytes or --container-bytes, so the largest body would never be accepted", i.BodyMemory)
	}
	return nil
}

// Admin holds the addresses of the pages and the API, and how people sign in.
type Admin struct {
	AdminAddr string `default:":8081" help:"Address of the pages and the JSON API."`
	PublicURL string `name:"public-url" help:"Address at which people reach the pages, such as https://logs.example.org. Without it, pages are served on loopback only, unless this process is reached by https."`
	IngestURL string `name:"ingest-url" help:"Address at which clients reach ingest, such as https://in.example.org, for the commands that pages show. Without it, pages show their own host and ingest's port."`

	TrustedProxies []string `help:"Networks of the proxies in front of the pages, such as 10.20.0.0/16, separated by commas. X-Forwarded-For is believed from these proxies only."`

	OIDCIssuer       string `name:"oidc-issuer" help:"OpenID Connect issuer of company accounts, exactly as it names itself. Existing users may sign in by their verified e-mail address."`
	OIDCClientID     string `name:"oidc-client-id" help:"This installation's client ID at the issuer; its redirect address is PUBLIC-URL/sign-in/company/back."`
	OIDCClientSecret Secret `name:"oidc-client-secret" help:"This installation's client secret at the issuer."`
}

// Proxies returns the networks of TrustedProxies. It fails only where Validate
// does.
func (a *Admin) Proxies() ([]netip.Prefix, error) {
	networks := make([]netip.Prefix, len(a.TrustedProxies))
	for i, entry := range a.TrustedProxies {
		network, err := netip.ParsePrefix(entry)
		if err != nil || network.Addr().Is4In6() {
			return nil, invalid("trusted-proxies", "%.100q is not a network such as 10.20.0.0/16", entry)
		}
		if network.Bits() == 0 {
			return nil, invalid("trusted-proxies", "%s is every address, so every client could claim any address", entry)
		}
		networks[i] = network.Masked()
	}
	return networks, nil
}

// Validate checks the form of the addresses, and that an issuer is complete.
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
			return invalid(address.setting, "must be an address such as https://logs.example.org, without a path")
		}
	}
	if a.OIDCIssuer == "" && a.OIDCClientID == "" && !a.OIDCClientSecret.IsSet() {
		return nil
	}
	if a.OIDCIssuer == "" || a.OIDCClientID == "" || !a.OIDCClientSecret.IsSet() {
		return invalid("oidc-issuer", "an issuer, a client ID and a client secret must be set together")
	}
	if a.PublicURL == "" {
		return invalid("public-url", "is required with --oidc-issuer, which sends people back to it")
	}
	return nil
}

// Quotas are the quotas of projects that have none of their own.
type Quotas struct {
	QuotaRate         int64 `default:"0" help:"Records a second, with a burst of ten seconds; 0 is unlimited."`
	QuotaDailyRecords int64 `default:"0" help:"Records a day; 0 is unlimited."`
	QuotaMonthlyBytes Size  `default:"0" help:"Bytes of text a month; 0 is unlimited."`
}

// Validate refuses negative quotas.
func (q *Quotas) Validate() error {
	if q.QuotaRate < 0 {
		return invalid("quota-rate", "%d is less than zero", q.QuotaRate)
	}
	if q.QuotaDailyRecords < 0 {
		return invalid("quota-daily-records", "%d is less than zero", q.QuotaDailyRecords)
	}
	return nil
}

// Keys encrypt stored secrets that must be read again, such as webhook addresses.
type Keys struct {
	SecretKey     Secret   `help:"Key that encrypts webhook addresses: 32 bytes in base64 (openssl rand -base64 32)."`
	OldSecretKeys []Secret `help:"Earlier keys, so that what they encrypted can still be read."`
}

// Validate checks the form of the keys. The error does not contain them.
func (k *Keys) Validate() error {
	if k.SecretKey.IsSet() && !isKey(k.SecretKey) {
		return invalid("secret-key", "must be 32 bytes in base64, such as openssl rand -base64 32 prints")
	}
	for _, old := range k.OldSecretKeys {
		if !isKey(old) {
			return invalid("old-secret-keys", "each must be 32 bytes in base64")
		}
	}
	return nil
}

// isKey accepts base64 of both alphabets, padded or not.
func isKey(s Secret) bool {
	text := strings.TrimRight(s.Reveal(), "=")
	for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if key, err := alphabet.DecodeString(text); err == nil && len(key) == 32 {
			return true
		}
	}
	return false
}

// Webhooks says which addresses messages to chats may reach.
type Webhooks struct {
	WebhookAllow []string `help:"Addresses that webhooks may reach although they are private or use http: host:port, such as chat.internal:8065, or a network, such as 10.20.0.0/16; separated by commas."`
}

// Validate checks the form of the entries.
func (w *Webhooks) Validate() error {
	for _, entry := range w.WebhookAllow {
		_, network := netip.ParsePrefix(entry)
		host, port, name := net.SplitHostPort(entry)
		if _, number := strconv.ParseUint(port, 10, 16); network != nil && (name != nil || host == "" || strings.Contains(host, "/") || number != nil) {
			return invalid("webhook-allow", "%.100q is neither host:port nor a network such as 10.20.0.0/16", entry)
		}
	}
	return nil
}

// Alerts says how messages to chats are sent.
type Alerts struct {
	AlertsPerMinute int `default:"20" help:"Messages that one destination gets in a minute; further ones become one digest."`
}

// Validate checks the range.
func (a *Alerts) Validate() error {
	if a.AlertsPerMinute < 1 || a.AlertsPerMinute > 1000 {
		return invalid("alerts-per-minute", "%d is not within 1 to 1000", a.AlertsPerMinute)
	}
	return nil
}
