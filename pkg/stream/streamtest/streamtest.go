// Package streamtest is for tests that talk to a real queue.
package streamtest

import (
	"time"

	"github.com/nats-io/nats.go"

	"github.com/logboom/logboom/pkg/stream"
)

// Calm connects under the name without pings: a machine that stands still for
// seconds passes their bound, and the connection would be taken for lost.
func Calm(name string) stream.ConnectConfig {
	return stream.ConnectConfig{Name: name, Options: []nats.Option{nats.PingInterval(time.Hour)}}
}
