package clickhouse

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/cenkalti/backoff/v5"
)

// prepareWaitMost is the longest wait between two tries of Prepare.
const prepareWaitMost = 5 * time.Second

// Prepare is Migrate for a process that may start before ClickHouse does, or
// while it is away: it tries until ctx ends. What waiting does not cure, such
// as a wrong password, it returns at once.
func (c *Client) Prepare(ctx context.Context, logger *slog.Logger) error {
	var last error
	try := func() (struct{}, error) {
		if last = c.Migrate(ctx); last != nil && !passes(last) {
			return struct{}{}, backoff.Permanent(last)
		}
		return struct{}{}, last
	}
	told := func(err error, wait time.Duration) {
		logger.WarnContext(ctx, "clickhouse not reached", "err", err, "retry_in", wait)
	}
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval = 100*time.Millisecond, prepareWaitMost
	if _, err := backoff.Retry(ctx, try, backoff.WithBackOff(waits), backoff.WithMaxElapsedTime(0), backoff.WithNotify(told)); err != nil {
		return last
	}
	return nil
}

// passes tells whether what Migrate met may be gone the next time.
func passes(err error) bool {
	var exception *ch.Exception
	if errors.As(err, &exception) {
		class := classify(exception.Code)
		return class.Verdict == Transient && class.Reason != "access_denied" || class.Reason == "timeout" || class.Reason == "connection_lost"
	}
	var network net.Error // a *net.OpError, and a time that is over, are ones
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
