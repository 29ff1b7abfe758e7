package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	connectTimeout     = 2 * time.Second
	connectWaitFirst   = 100 * time.Millisecond
	connectWaitMost    = 2 * time.Second
	reconnectWait      = 50 * time.Millisecond
	reconnectWaitExtra = 200 * time.Millisecond
	// A write that stalls for writeTimeout means a dead peer: the server reads its
	// sockets even while its disk is slow.
	writeTimeout = 3 * time.Second
	pingInterval = 2 * time.Second
	apiTimeout   = 5 * time.Second
)

// ConnectConfig describes a connection to the queue.
type ConnectConfig struct {
	// Name is the name of the connection on the server: the process, such as ingest,
	// and perhaps more words. Answers arrive in the inbox of its first word, such as
	// _INBOX.ingest.
	Name string
	// Logger receives connects, disconnects and errors. Default: none.
	Logger *slog.Logger
	// Options override this package's own.
	Options []nats.Option
}

// Connect connects to the servers of address, a comma-separated list, and retries
// until ctx ends. A lost connection is restored by itself, for ever. While it is
// lost, a publish fails at once and nothing is buffered. The caller closes the
// connection.
func Connect(ctx context.Context, address string, cfg ConnectConfig) (*nats.Conn, jetstream.JetStream, error) {
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	shown, err := redact(address)
	if err != nil {
		return nil, nil, err
	}
	options := append(connectOptions(cfg.Name, log), inboxOptions(cfg.Name)...)
	options = append(options, cfg.Options...)
	var last error // of the newest attempt: ctx's own error does not say why it failed
	attempt := func() (*nats.Conn, error) {
		nc, err := nats.Connect(address, options...)
		last = err
		return nc, err
	}
	notify := func(err error, wait time.Duration) {
		log.WarnContext(ctx, "queue not reached", "address", shown, "err", err, "retry_in", wait)
	}
	nc, err := backoff.Retry(ctx, attempt, backoff.WithBackOff(connectWaits()), backoff.WithMaxElapsedTime(0), backoff.WithNotify(notify))
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the queue at %s: %w (%w)", shown, err, last)
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(apiTimeout))
	if err != nil {
		nc.Close()
		return nil, nil, fmt.Errorf("connect to the queue at %s: %w", shown, err)
	}
	log.InfoContext(ctx, "queue connected", "address", shown)
	return nc, js, nil
}

func connectWaits() *backoff.ExponentialBackOff {
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval = connectWaitFirst
	waits.MaxInterval = connectWaitMost
	return waits
}

func connectOptions(name string, log *slog.Logger) []nats.Option {
	return []nats.Option{
		nats.Name(name),
		nats.Timeout(connectTimeout),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // a server may start before its users are known
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectWaitExtra, reconnectWaitExtra),
		nats.ReconnectBufSize(-1), // fail while disconnected: a buffered message would be published twice by retries
		nats.FlusherTimeout(writeTimeout),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(2),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("queue connection lost", "err", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info("queue connection restored") }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Warn("queue connection reported an error", "err", err)
		}),
	}
}

// inboxOptions give each process an inbox of its own, so that a server can let it
// subscribe to that one alone. The inbox is below _INBOX.>, which servers allow by
// default. A name whose first word is not valid in a subject keeps the common one.
func inboxOptions(name string) []nats.Option {
	process, _, _ := strings.Cut(name, " ")
	if !isToken(process) {
		return nil
	}
	return []nats.Option{nats.CustomInboxPrefix(nats.InboxPrefix + process)}
}

// redact returns the address without user, password and query. Its error does not
// repeat a bad address, because the bad part may be a secret.
func redact(address string) (string, error) {
	var shown []string
	for part := range strings.SplitSeq(address, ",") {
		part = strings.TrimSpace(part)
		if !strings.Contains(part, "://") {
			part = "nats://" + part
		}
		u, err := url.Parse(part)
		if err != nil || u.Host == "" {
			return "", errors.New("address of the queue: give nats://host:port, with user:password@ or token@ before the host if needed")
		}
		shown = append(shown, u.Scheme+"://"+u.Host)
	}
	return strings.Join(shown, ","), nil
}

// link follows the state of a connection, so that no caller waits for an answer that
// a broken connection cannot bring. Reading the state takes no lock of the
// connection, which may be stuck in a write.
type link struct {
	nc *nats.Conn

	mu     sync.Mutex
	alive  context.Context // until the connection breaks
	broken context.CancelCauseFunc
}

func newLink(nc *nats.Conn) *link {
	l := &link{nc: nc}
	l.alive, l.broken = context.WithCancelCause(context.Background())
	return l
}

// watch records every change until ctx ends. It registers the listener before it
// reads the status for the first time, so that it misses no change.
func (l *link) watch(ctx context.Context) {
	changes := l.nc.StatusChanged()
	defer l.nc.RemoveStatusListener(changes)
	l.record(l.nc.Status())
	for {
		select {
		case status := <-changes:
			l.record(status)
			l.record(l.nc.Status()) // nats.go drops events when the channel is full
		case <-ctx.Done():
			return
		}
	}
}

func (l *link) record(status nats.Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case status != nats.CONNECTED:
		l.broken(errLinkDown)
	case l.alive.Err() != nil:
		l.alive, l.broken = context.WithCancelCause(context.Background())
	}
}

// context returns a context that ends with errLinkDown when the connection breaks.
func (l *link) context() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.alive
}

func (l *link) up() bool { return l.context().Err() == nil }
