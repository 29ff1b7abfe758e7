// Package streamtest runs a real queue for tests.
package streamtest

import (
	"time"

	"github.com/nats-io/nats.go"

	"github.com/logboom/logboom/pkg/stream"
)

// Calm connects under the name without pings: a machine that is suspended for
// seconds would exceed their limit and lose the connection.
func Calm(name string) stream.ConnectConfig {
	return stream.ConnectConfig{Name: name, Options: []nats.Option{nats.PingInterval(time.Hour)}}
}
