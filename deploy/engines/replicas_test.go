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

// cluster runs three servers with nats.conf that know of each other, and is
// their addresses for a user.
func cluster(t *testing.T, log *refusals, user string) string {
	t.Helper()
	var all []*server.Options
	var routes, addresses []string
	for i := range 3 {
		options := settings(t)
		port, err := freeport.Port()
		if err != nil {
			t.Fatal(err)
		}
		options.ServerName, options.Cluster = fmt.Sprintf("member-%d", i), server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: port}
		routes = append(routes, fmt.Sprintf("nats-route://127.0.0.1:%d", port))
		all = append(all, options)
	}
	for _, options := range all {
		options.Routes = server.RoutesFromStr(strings.Join(routes, ","))
		s, err := server.NewServer(options)
		if err != nil {
			t.Fatal(err)
		}
		s.SetLoggerV2(log, false, false, false)
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		if !s.ReadyForConnections(patience) {
			t.Fatal("the server does not take connections")
		}
		addresses = append(addresses, fmt.Sprintf("nats://%s:%s@%s", user, secret, s.Addr()))
	}
	return strings.Join(addresses, ",")
}

// A bucket that is left on one server of three would be lost with it.
func TestMigrateMakesEverythingOnEveryServerOfACluster(t *testing.T) {
	t.Parallel()
	log := &refusals{}
	defer log.check(t)
	address := cluster(t, log, "admin")
	spawn(t, "admin", []string{
		"LOGBOOM_NATS_URL=" + address, "LOGBOOM_CLICKHOUSE_URL=" + enginetest.URL(t), "LOGBOOM_REPLICAS=3", "LOGBOOM_SHARDS=1", "LOGBOOM_STREAM_BYTES=64MiB",
	}, "migrate").end()
	nc, js, err := stream.Connect(t.Context(), address, streamtest.Calm("admin"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	var made []*jetstream.StreamInfo
	awaitThat(t, "17 streams and buckets are told of by their servers", func() bool {
		made = nil
		list := js.ListStreams(t.Context())
		for info := range list.Info() {
			made = append(made, info)
		}
		return list.Err() == nil && len(made) >= 17
	})
	for _, info := range made {
		if info.Config.Replicas != 3 || info.Config.Storage != jetstream.FileStorage {
			t.Errorf("%s has %d replicas in %v", info.Config.Name, info.Config.Replicas, info.Config.Storage)
		}
	}
}
