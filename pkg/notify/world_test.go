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
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/webhook"
	"github.com/logboom/logboom/pkg/webhook/webhooktest"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// patience bounds every wait of these tests.
const patience = 2 * time.Minute

// world is a queue and a ClickHouse, and what stands around a notifier.
type world struct {
	t        testing.TB
	nats     *embedded.NATS
	js       jetstream.JetStream
	topology *stream.Topology
	store    *project.Store
	client   *clickhouse.Client
	publish  *stream.Publisher
	chats    []*webhooktest.Chat
	allowed  []string // beside the chats
	log      lockedBuffer
	cfg      Config
	attempt  time.Duration // that an attempt may take
	looks    atomic.Int32  // how often a notifier asked who wants logs
	silence  atomic.Int32  // questions for alerts that the record does not answer
}

// watched counts looks, and leaves as many questions unanswered as it is told.
type watched struct {
	*project.Store
	looks   *atomic.Int32
	silence *atomic.Int32
}

func (p watched) AlertsByID(ctx context.Context, id string) (project.Alerts, error) {
	if p.silence.Add(-1) >= 0 {
		return project.Alerts{}, context.DeadlineExceeded
	}
	return p.Store.AlertsByID(ctx, id)
}

func (p watched) AlertsRevision(ctx context.Context) (uint64, error) {
	p.looks.Add(1)
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

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, cfg: quick(), attempt: patience}
	var err error
	if w.nats, err = embedded.StartNATS(t.Context(), embedded.NATSConfig{DataDir: t.TempDir(), MaxStore: 4 << 30}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.nats.Stop(context.Background()) })
	w.js, w.topology = w.connect(2)
	if w.store, err = project.Open(t.Context(), w.js, project.StoreConfig{Key: project.NewSecret(base64.StdEncoding.EncodeToString(make([]byte, 32)))}); err != nil {
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
	done := make(chan error, 1) // Run's answer, so that it never waits for the test
	go func() { done <- w.publish.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

// quick is what lets a thousand events pass within a test.
func quick() Config {
	cfg := DefaultConfig()
	cfg.PerWindow, cfg.Window, cfg.Gap = 40, 500*time.Millisecond, time.Millisecond
	cfg.BackoffFirst, cfg.BackoffMost = 20*time.Millisecond, 200*time.Millisecond
	cfg.Beat, cfg.FlushEvery, cfg.Gather, cfg.QuotaEvery, cfg.GroupEvery = 300*time.Millisecond, 100*time.Millisecond, 300*time.Millisecond, 300*time.Millisecond, time.Second
	return cfg
}

func (w *world) connect(shards int) (jetstream.JetStream, *stream.Topology) {
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

// notifier is a running one.
type notifier struct {
	*Notifier
	nc       *nats.Conn
	registry *prometheus.Registry
	cancel   context.CancelCauseFunc
	done     chan error
}

// start runs a notifier over a connection of its own.
func (w *world) start() *notifier {
	w.t.Helper()
	js, topology := w.connect(0)
	var box *outbox.Outbox
	var bucket *Bucket
	var member *lease.Member
	var positions *ledger.Ledger
	w.eventually("the notifier's engines are there", func() bool {
		var err error
		if box, err = outbox.Open(w.t.Context(), js, outbox.Config{Partitions: topology.Shards()}); err == nil {
			bucket, err = OpenBucket(w.t.Context(), js, 1)
		}
		if err == nil {
			member, err = newMember(w.t.Context(), js, w.cfg.Member, slog.New(slog.DiscardHandler))
		}
		if err == nil {
			positions, err = ledger.Open(w.t.Context(), js, 1, nil)
		}
		return err == nil
	})
	registry := prometheus.NewRegistry()
	logger := slog.New(slog.NewJSONHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	n := &notifier{nc: js.Conn(), registry: registry, done: make(chan error, 1), Notifier: New(w.cfg, Deps{
		Logger: logger, Registry: registry, Queue: topology, Ledger: positions, Outbox: box, Bucket: bucket, Leases: member,
		Projects: watched{w.store, &w.looks, &w.silence}, Deliverer: w.sender(), Tables: w.client,
	})}
	ctx, cancel := context.WithCancelCause(context.Background())
	n.cancel = cancel
	go func() { n.done <- n.Run(ctx) }()
	w.t.Cleanup(n.stop)
	return n
}

// sender may reach the chats of the test.
func (w *world) sender() *webhook.Sender {
	entries := slices.Clone(w.allowed)
	roots := x509.NewCertPool()
	for _, chat := range w.chats {
		entries = append(entries, chat.HostPort())
		roots = chat.Roots() // all of httptest's servers share one certificate
	}
	allow, err := webhook.ParseAllowList(entries)
	if err != nil {
		w.t.Fatal(err)
	}
	return webhook.NewSender(webhook.Config{Allow: allow, Roots: roots, Timeout: w.attempt, Signer: webhook.NewSigner("key")})
}

// stop ends it as a process does that is asked to.
func (n *notifier) stop() {
	n.cancel(context.Canceled)
	<-n.done
	n.done <- nil
}

// waiting is how many alerts wait at its destinations.
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
	t.Fatal("there is no metric of what waits")
	return 0
}

// kill ends it as SIGKILL does, as far as others can tell: its connection is
// gone and its requests break off where they are.
func (n *notifier) kill() {
	n.nc.Close()
	n.cancel(ledger.ErrFenced)
}

// project makes one whose alerts go to a new chat of the format.
func (w *world) project(format webhook.Format, minSeverity string) (project.Project, *webhooktest.Chat) {
	w.t.Helper()
	p, err := w.store.CreateProject(w.t.Context(), fmt.Sprintf("to-%s-%d", format, len(w.chats)))
	if err != nil {
		w.t.Fatal(err)
	}
	secret, err := webhook.NewSigner("key").Secret(p.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	chat := webhooktest.Start(w.t, format, secret)
	w.chats = append(w.chats, chat)
	err = w.store.SetAlerts(w.t.Context(), p.Name, project.Alerts{WebhookURL: project.NewSecret(chat.Address()), Format: string(format), MinSeverity: minSeverity})
	if err != nil {
		w.t.Fatal(err)
	}
	return p, chat
}

// event publishes one event, as ingest does.
func (w *world) event(p project.Project, title string, notify bool) {
	w.t.Helper()
	var batch record.Batch
	batch.Reset(record.KindEvent, p.ID, 30)
	batch.AppendEvent(&record.Event{Timestamp: time.Now().UnixNano(), Channel: "deploys", Title: title, Description: "<!channel> & more", Notify: notify})
	w.put(stream.Message{Kind: record.KindEvent, Notify: notify, Project: p.ID, Parts: [][]byte{record.AppendBatch(nil, &batch)}, Records: 1})
}

func (w *world) put(m stream.Message) {
	w.t.Helper()
	if _, err := w.publish.Publish(w.t.Context(), m); err != nil {
		w.t.Fatal(err)
	}
}

// logs publishes logs with these lines.
func (w *world) logs(p project.Project, severity string, number uint8, lines ...string) {
	w.t.Helper()
	var batch record.Batch
	batch.Reset(record.KindLog, p.ID, 30)
	for _, line := range lines {
		batch.AppendLog(&record.Log{Timestamp: time.Now().UnixNano(), Application: "web", Severity: severity, SeverityNumber: number, Data: line})
	}
	w.put(stream.Message{Kind: record.KindLog, Project: p.ID, Parts: [][]byte{record.AppendBatch(nil, &batch)}, Records: len(lines)})
}

// deliveries are a project's notifications by id.
func (w *world) deliveries(p project.Project) map[string]clickhouse.Delivery {
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

// eventually asks again and again.
func (w *world) eventually(what string, holds func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			w.t.Fatalf("not within %s: %s\n%.4000s", patience, what, w.log.String())
		}
		<-time.After(20 * time.Millisecond)
	}
}

// disturbed tells whether work was cut short and begun anew, as it is on a
// machine that stands still: then a message may have been tried, and a log told
// of, more than once.
func (w *world) disturbed() bool {
	for _, sign := range []string{"part of the notifier interrupted", "another notifier has taken over", "partition no longer worked"} {
		if strings.Contains(w.log.String(), sign) {
			return true
		}
	}
	return false
}

// secretFree fails the test where an address is in the log or in a row.
func (w *world) secretFree(projects ...project.Project) {
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
