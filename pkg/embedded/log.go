package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
)

// serverLog hands the server's lines to slog. Notices tell of every start and
// stream, so they count as debug here. A fatal line would end nats-server's
// own program; here it fails StartNATS.
type serverLog struct {
	to    *slog.Logger
	first atomic.Pointer[string] // the first fatal line
	stuck atomic.Bool            // a stream's file could not be written
}

// writeErrorLine is in the line by which the server says, once a stream, that
// it could not write a file. From then on it refuses all that comes for the
// stream without an answer, until it is started anew.
const writeErrorLine = "Critical write error"

func (l *serverLog) Noticef(format string, args ...any) { l.write(slog.LevelDebug, format, args) }
func (l *serverLog) Warnf(format string, args ...any)   { l.write(slog.LevelWarn, format, args) }
func (l *serverLog) Debugf(format string, args ...any)  { l.write(slog.LevelDebug, format, args) }
func (l *serverLog) Tracef(format string, args ...any)  { l.write(slog.LevelDebug, format, args) }

func (l *serverLog) Errorf(format string, args ...any) {
	if strings.Contains(format, writeErrorLine) {
		l.stuck.Store(true)
	}
	l.write(slog.LevelError, format, args)
}

func (l *serverLog) Fatalf(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	l.first.CompareAndSwap(nil, &line)
	l.write(slog.LevelError, format, args)
}

func (l *serverLog) write(level slog.Level, format string, args []any) {
	ctx := context.Background()
	if !l.to.Enabled(ctx, level) {
		return
	}
	l.to.Log(ctx, level, "embedded queue reported", "line", fmt.Sprintf(format, args...))
}

// fatal is the first fatal line, or "" when there was none.
func (l *serverLog) fatal() string {
	if line := l.first.Load(); line != nil {
		return *line
	}
	return ""
}
