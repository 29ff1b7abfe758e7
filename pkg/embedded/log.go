package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
)

// serverLog writes the server's log lines to slog. Notices are written at debug
// level, because the server logs one for every start and stream. A fatal line
// would end the nats-server program; here it makes StartNATS fail.
type serverLog struct {
	to    *slog.Logger
	first atomic.Pointer[string] // the first fatal line
	stuck atomic.Bool            // a stream's file could not be written
}

// writeErrorLine is part of the line that the server logs, once for each
// stream, when it could not write the stream's file. From then on the server
// drops all messages for the stream without an answer, until it is restarted.
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
	l.to.Log(ctx, level, "embedded queue logged a line", "line", fmt.Sprintf(format, args...))
}

// fatal is the first fatal line, or "" if there was none.
func (l *serverLog) fatal() string {
	if line := l.first.Load(); line != nil {
		return *line
	}
	return ""
}
