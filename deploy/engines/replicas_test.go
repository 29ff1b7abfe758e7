package engines

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
	"github.com/logboom/logboom/pkg/freeport"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/stream/streamtest"
)

// cluster runs a cluster of three servers with nats.conf, and returns their
// addresses for a user.
func cluster(t *testing.T, log *refusals, user string) string {
	t.Helper()
	var members []*server.Options
	var routes, addresses []string
	for i := range 3 {
		options := settings(t)
		port, err := freeport.Port()
		if err != nil {
			t.Fatal(err)
		}
		options.ServerName, options.Cluster = fmt.Sprintf("member-%d", i), server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: port}
		routes = append(routes, fmt.Sprintf("nats-route://127.0.0.1:%d", port))
		members = append(members, options)
	}
	for _, options := range members {
		options.Routes = server.RoutesFromStr(strings.Join(routes, ","))
		s, err := server.NewServer(options)
		if err != nil {
			t.Fatal(err)
		}
		s.SetLoggerV2(log, false, false, false)
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		if !s.ReadyForConnections(patience) {
			t.Fatal("the server does not accept connections")
		}
		addresses = append(addresses, fmt.Sprintf("nats://%s:%s@%s", user, secret, s.Addr()))
	}
	return strings.Join(addresses, ",")
}

// A bucket on only one of three servers would be lost with that server.
func TestMigrateReplicatesEveryStreamAndBucket(t *testing.T) {
	t.Parallel()
	log := &refusals{}
	defer log.check(t)
	address := cluster(t, log, "admin")
	spawn(t, "admin", []string{
		"LOGBOOM_NATS_URL=" + address, "LOGBOOM_CLICKHOUSE_URL=" + enginetest.URL(t), "LOGBOOM_REPLICAS=3", "LOGBOOM_SHARDS=1", "LOGBOOM_STREAM_BYTES=64MiB",
	}, "migrate").awaitExit()
	nc, js, err := stream.Connect(t.Context(), address, streamtest.Calm("admin"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	var created []*jetstream.StreamInfo
	awaitThat(t, "the servers list 17 streams and buckets", func() bool {
		created = nil
		list := js.ListStreams(t.Context())
		for info := range list.Info() {
			created = append(created, info)
		}
		return list.Err() == nil && len(created) >= 17
	})
	for _, info := range created {
		if info.Config.Replicas != 3 || info.Config.Storage != jetstream.FileStorage {
			t.Errorf("%s has %d replicas, storage %v", info.Config.Name, info.Config.Replicas, info.Config.Storage)
		}
	}
}
