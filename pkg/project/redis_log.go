package project

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// LogRedis sends what go-redis has to say to the logger. The library has one
// logger for the whole process, so a main calls it once, before OpenRedis.
func LogRedis(logger *slog.Logger) {
	redis.SetLogger(redisLog{logger.With("engine", "redis")})
}

// redisLog is at debug level: failures are counted and logged where Redis is
// used.
type redisLog struct{ logger *slog.Logger }

func (l redisLog) Printf(ctx context.Context, format string, v ...any) {
	l.logger.DebugContext(ctx, fmt.Sprintf(format, v...))
}
