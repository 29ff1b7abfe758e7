package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
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
	// A write that stalls so long means a dead peer: the server reads its
	// sockets even while its disk is slow.
	writeTimeout = 3 * time.Second
	pingInterval = 2 * time.Second
	apiTimeout   = 5 * time.Second
)

// ConnectConfig says how to connect to the queue.
type ConnectConfig struct {
	// Name is what the server calls this connection: the process, such as
	// ingest, and perhaps more words. Answers come to the process's own inbox,
	// _INBOX.ingest.
	Name string
	// Logger takes connects, disconnects and errors. Default: none is kept.
	Logger *slog.Logger
	// Options come after this package's own and win over them.
	Options []nats.Option
}

// Connect connects to the servers of address, a comma-separated list, and
// tries until ctx ends. Later the connection comes back by itself, for ever;
// while it is away a publish fails at once and nothing is kept to be sent
// later. The caller closes the connection.
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
	var last error // why the newest attempt failed: ctx's own error does not say
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
		nats.IgnoreAuthErrorAbort(), // a server may come back before its users do
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectWaitExtra, reconnectWaitExtra),
		nats.ReconnectBufSize(-1), // fail while disconnected: a kept publish would be answered twice
		nats.FlusherTimeout(writeTimeout),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(2),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("queue connection lost", "err", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info("queue connection is back") }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Warn("queue connection reported an error", "err", err)
		}),
	}
}

// inboxOptions keep the answers to a process apart from those to others, so that
// a server can let each listen to its own alone. The inbox is one of _INBOX.>,
// which is what servers allow that know of no other. A name whose first word may
// not stand in a subject has none of its own.
func inboxOptions(name string) []nats.Option {
	process, _, _ := strings.Cut(name, " ")
	if !isToken(process) {
		return nil
	}
	return []nats.Option{nats.CustomInboxPrefix(nats.InboxPrefix + process)}
}

// redact is the address as it may be shown: without user, password and query.
// The error of a bad one does not repeat it, for the secret may be the bad part.
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
