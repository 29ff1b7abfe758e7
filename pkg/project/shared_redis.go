package project

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisShared is the Shared of a cluster. Its client is best made by OpenRedis.
type RedisShared struct {
	client redis.UniversalClient
}

// NewRedisShared uses the client, and does not close it.
func NewRedisShared(client redis.UniversalClient) *RedisShared {
	return &RedisShared{client: client}
}

// Load implements Shared.
func (r *RedisShared) Load(ctx context.Context, key string) ([]byte, error) {
	value, err := r.client.Get(ctx, key).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, ErrMiss
	}
	return value, err
}

// Store implements Shared.
func (r *RedisShared) Store(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	return r.client.Set(ctx, key, value, ttl).Err()
}

// Drop implements Shared. The keys go one by one in a pipeline, since in a
// cluster they are on different nodes.
func (r *RedisShared) Drop(ctx context.Context, keys ...string) error {
	_, err := r.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, key := range keys {
			pipe.Unlink(ctx, key)
		}
		return nil
	})
	return err
}
