package notify

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
	"github.com/logboom/logboom/pkg/lease"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/outbox"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/secret"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/webhook"
	"github.com/logboom/logboom/pkg/webhook/webhooktest"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// patience bounds every wait of the tests.
const patience = 2 * time.Minute

// fixture holds the engines of a test and the services around its notifiers.
type fixture struct {
	t        testing.TB
	nats     *embedded.NATS
	js       jetstream.JetStream
	topology *stream.Topology
	store    *project.Store
	client   *clickhouse.Client
	publish  *stream.Publisher
	chats    []*webhooktest.Chat
	allowed  []string // addresses that webhooks may reach, beside the chats
	log      lockedBuffer
	cfg      Config
	timing   timing
	attempt  time.Duration // the timeout of an attempt
	loads    atomic.Int32  // how often a notifier has loaded the rules of logs
	silence  atomic.Int32  // how many of the next reads of alert settings fail
}

// faultyStore counts the loads of rules, and lets reads of alert settings fail.
type faultyStore struct {
	*project.Store
	loads   *atomic.Int32
	silence *atomic.Int32
}

func (p faultyStore) AlertsByID(ctx context.Context, id string) (project.Alerts, error) {
	if p.silence.Add(-1) >= 0 {
		return project.Alerts{}, context.DeadlineExceeded
	}
	return p.Store.AlertsByID(ctx, id)
}

func (p faultyStore) AlertsRevision(ctx context.Context) (uint64, error) {
	p.loads.Add(1)
	return p.Store.AlertsRevision(ctx)
}

type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	w := &fixture{t: t, cfg: Config{PerMinute: 40}, timing: fast(), attempt: patience}
	var err error
	if w.nats, err = embedded.StartNATS(t.Context(), embedded.NATSConfig{DataDir: t.TempDir(), MaxStore: 4 << 30}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.nats.Stop(context.Background()) })
	w.js, w.topology = w.connect(2)
	if w.store, err = project.Open(t.Context(), w.js, project.Config{Key: secret.New(base64.StdEncoding.EncodeToString(make([]byte, 32)))}); err != nil {
		t.Fatal(err)
	}
	if w.client, err = clickhouse.Open(clickhouse.Config{URL: enginetest.URL(t), DialTimeout: patience, InsertTimeout: patience, ReadTimeout: patience}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.client.Close() })
	if err := w.client.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.publish, err = stream.NewPublisher(w.topology, stream.PublisherConfig{AckTimeout: patience}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1) // capacity 1: Run never waits for the test
	go func() { done <- w.publish.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

// fast lets a thousand alerts pass within a test.
func fast() timing {
	return timing{
		beat: 300 * time.Millisecond, window: 500 * time.Millisecond, gap: time.Millisecond,
		firstBackoff: 20 * time.Millisecond, maxBackoff: 200 * time.Millisecond, giveUpGeneric: 24 * time.Hour,
		flushEvery: 100 * time.Millisecond, gather: 300 * time.Millisecond, groupEvery: time.Second, quotaEvery: 300 * time.Millisecond,
	}
}

func (w *fixture) connect(shards int) (jetstream.JetStream, *stream.Topology) {
	w.t.Helper()
	nc, _, err := stream.Connect(w.t.Context(), w.nats.URL(), stream.ConnectConfig{Name: "test", Options: []nats.Option{
		nats.Timeout(patience), nats.FlusherTimeout(patience), nats.PingInterval(time.Hour),
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		w.t.Fatal(err)
	}
	topology, err := stream.Open(w.t.Context(), js, stream.Config{Shards: shards, MaxBytes: 64 << 20, DeadMaxBytes: 64 << 20})
	if err != nil {
		w.t.Fatal(err)
	}
	return js, topology
}

// notifier is a running notifier.
type notifier struct {
	*Notifier
	nc       *nats.Conn
	registry *prometheus.Registry
	cancel   context.CancelCauseFunc
	done     chan error
}

// start starts a notifier with its own connection.
func (w *fixture) start() *notifier {
	w.t.Helper()
	js, topology := w.connect(0)
	var box *outbox.Outbox
	var bucket *Bucket
	var positions *ledger.Ledger
	var member *lease.Member
	logger := slog.New(slog.NewJSONHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.eventually("the notifier's engines are open", func() bool {
		var err error
		if box, err = outbox.Open(w.t.Context(), js, outbox.Config{Partitions: topology.Shards()}); err == nil {
			bucket, err = OpenBucket(w.t.Context(), js, 1)
		}
		if err == nil {
			positions, err = ledger.Open(w.t.Context(), js, 1, logger)
		}
		if err == nil {
			member, err = bucket.newMember("", logger)
		}
		return err == nil
	})
	registry := prometheus.NewRegistry()
	n := &notifier{nc: js.Conn(), registry: registry, done: make(chan error, 1), Notifier: New(w.cfg, Deps{
		Logger: logger, Registry: registry, Queue: topology, Ledger: positions, Outbox: box, Bucket: bucket, Leases: member,
		Projects: faultyStore{w.store, &w.loads, &w.silence}, Deliverer: w.sender(), Tables: w.client,
	})}
	n.timing = w.timing
	ctx, cancel := context.WithCancelCause(context.Background())
	n.cancel = cancel
	go func() { n.done <- n.Run(ctx) }()
	w.t.Cleanup(n.stop)
	return n
}

// sender returns a sender that may reach the chats of the test.
func (w *fixture) sender() *webhook.Sender {
	entries := slices.Clone(w.allowed)
	roots := x509.NewCertPool()
	for _, chat := range w.chats {
		entries = append(entries, chat.HostPort())
		roots = chat.Roots() // all servers of httptest have the same certificate
	}
	allow, err := webhook.ParseAllowList(entries)
	if err != nil {
		w.t.Fatal(err)
	}
	return webhook.NewSender(webhook.Config{Allow: allow, Roots: roots, Timeout: w.attempt, Signer: webhook.NewSigner("key")})
}

// stop ends a notifier as SIGTERM does.
func (n *notifier) stop() {
	n.cancel(context.Canceled)
	<-n.done
	n.done <- nil
}

// waiting returns how many alerts wait at the notifier's destinations.
func (n *notifier) waiting(t *testing.T) float64 {
	t.Helper()
	families, err := n.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "logboom_notifier_waiting_alerts" {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatal("the metric of waiting alerts is missing")
	return 0
}

// kill ends a notifier, as far as others can see, as SIGKILL does: its connection
// is closed and its requests are cancelled.
func (n *notifier) kill() {
	n.nc.Close()
	n.cancel(ledger.ErrFenced)
}

// project creates a project whose alerts go to a new chat.
func (w *fixture) project(format webhook.Format, minSeverity string) (project.Project, *webhooktest.Chat) {
	w.t.Helper()
	p, err := w.store.CreateProject(w.t.Context(), fmt.Sprintf("to-%s-%d", format, len(w.chats)))
	if err != nil {
		w.t.Fatal(err)
	}
	signing, err := webhook.NewSigner("key").Secret(p.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	chat := webhooktest.Start(w.t, format, signing)
	w.chats = append(w.chats, chat)
	_, err = w.store.ChangeAlerts(w.t.Context(), p.Name, func(a *project.Alerts) {
		*a = project.Alerts{WebhookURL: secret.New(chat.Address()), Format: string(format), MinSeverity: minSeverity}
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return p, chat
}

// event publishes one event as ingest does.
func (w *fixture) event(p project.Project, title string, notify bool) {
	w.t.Helper()
	var batch record.Batch
	batch.Reset(record.KindEvent, p.ID, 30)
	batch.AppendEvent(&record.Event{Timestamp: time.Now().UnixNano(), Channel: "deploys", Title: title, Description: "<!channel> & more", Notify: notify})
	w.publishMessage(stream.Message{Kind: record.KindEvent, Notify: notify, Project: p.ID, Parts: [][]byte{record.AppendBatch(nil, &batch)}, Records: 1})
}

func (w *fixture) publishMessage(m stream.Message) {
	w.t.Helper()
	if _, err := w.publish.Publish(w.t.Context(), m); err != nil {
		w.t.Fatal(err)
	}
}

// logs publishes one log for each line.
func (w *fixture) logs(p project.Project, severity string, number uint8, lines ...string) {
	w.t.Helper()
	var batch record.Batch
	batch.Reset(record.KindLog, p.ID, 30)
	for _, line := range lines {
		batch.AppendLog(&record.Log{Timestamp: time.Now().UnixNano(), Application: "web", Severity: severity, SeverityNumber: number, Data: line})
	}
	w.publishMessage(stream.Message{Kind: record.KindLog, Project: p.ID, Parts: [][]byte{record.AppendBatch(nil, &batch)}, Records: len(lines)})
}

// deliveries returns a project's deliveries by ID.
func (w *fixture) deliveries(p project.Project) map[string]clickhouse.Delivery {
	w.t.Helper()
	found, cursor := map[string]clickhouse.Delivery{}, ""
	for {
		page, err := w.client.Deliveries(w.t.Context(), clickhouse.DeliveryQuery{Project: p.ID, Limit: 1000, Cursor: cursor})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, d := range page.Deliveries {
			found[d.ID] = d
		}
		if cursor = page.Next; cursor == "" {
			return found
		}
	}
}

// eventually waits until holds returns true.
func (w *fixture) eventually(what string, holds func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			w.t.Fatalf("not within %s: %s\n%.4000s", patience, what, w.log.String())
		}
		<-time.After(20 * time.Millisecond)
	}
}

// disturbed reports whether work was interrupted and started again, which happens
// on a slow machine. Then a message may have been sent, and a log counted, more
// than once.
func (w *fixture) disturbed() bool {
	for _, sign := range []string{"part of the notifier interrupted", "another notifier has taken over", "work ended by itself"} {
		if strings.Contains(w.log.String(), sign) {
			return true
		}
	}
	return false
}

// checkSecrets fails the test if the log or a row contains an address.
func (w *fixture) checkSecrets(projects ...project.Project) {
	w.t.Helper()
	if strings.Contains(w.log.String(), webhooktest.Secret) {
		w.t.Error("the log shows an address")
	}
	for _, p := range projects {
		for _, d := range w.deliveries(p) {
			if strings.Contains(fmt.Sprintf("%+v", d), webhooktest.Secret) {
				w.t.Errorf("a row shows an address: %+v", d)
			}
		}
	}
}
