package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/admin"
	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/config"
	"github.com/logboom/logboom/pkg/lease"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/notify"
	"github.com/logboom/logboom/pkg/outbox"
	"github.com/logboom/logboom/pkg/people"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/token"
)

// migrate creates what the services would create when they start: streams,
// buckets and tables. After it has run, they need no right to create anything.
type migrate struct {
	config.NATS       `embed:""`
	config.ClickHouse `embed:""`
	config.Queue      `embed:""`

	StoreAgain bool `help:"Let the writers store again what the queue holds after the newest row of each stream. Use it after ClickHouse was restored from a backup. No writer may run."`

	Wait time.Duration `default:"2m" help:"How long to wait for engines that do not answer yet."`
}

// Validate requires at least a second to wait.
func (m *migrate) Validate() error {
	if m.Wait < time.Second {
		return fmt.Errorf("--wait (%s): %s is less than 1s", config.Variable("wait"), m.Wait)
	}
	return errors.Join(m.NATS.Validate(), m.ClickHouse.Validate(), m.Queue.Validate())
}

// run runs the command and returns its exit code.
func (m *migrate) run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, m.Wait)
	defer cancel()
	client, err := clickhouse.Open(clickhouse.Config{URL: m.ClickHouseURL.Reveal(), Cluster: m.ClickHouseCluster})
	if err == nil {
		defer func() { _ = client.Close() }() // the tables are as they should be
		err = retry(ctx, func() error { return client.Migrate(ctx) })
	}
	if err == nil {
		err = m.openQueue(ctx, client)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "admin: migrate: %v\n", err)
		return 1
	}
	fmt.Println("The streams, buckets and tables are ready for this version.")
	return 0
}

// openQueue creates the streams and buckets.
func (m *migrate) openQueue(ctx context.Context, client *clickhouse.Client) error {
	nc, js, err := stream.Connect(ctx, m.NATSURL.Reveal(), stream.ConnectConfig{Name: "admin migrate"})
	if err != nil {
		return err
	}
	defer nc.Close()
	return retry(ctx, func() error {
		cfg := stream.Config{Shards: m.Shards, Replicas: m.Replicas, MaxBytes: int64(m.StreamBytes)}
		positions, err := ledger.Open(ctx, js, m.Replicas, nil)
		if err != nil {
			return err
		}
		if err := stream.Continue(ctx, js, cfg, client.LastStored, positions); err != nil {
			return err
		}
		topology, err := stream.Open(ctx, js, cfg)
		if err != nil {
			return err
		}
		if err := m.openBuckets(ctx, js, topology.Shards()); err != nil {
			return err
		}
		return m.rewind(ctx, js, topology, positions, client)
	})
}

// rewind makes the writers store messages again, if --store-again is given, and
// prints which.
func (m *migrate) rewind(ctx context.Context, js jetstream.JetStream, topology *stream.Topology, positions *ledger.Ledger, client *clickhouse.Client) error {
	if !m.StoreAgain {
		return nil
	}
	if err := lease.RefuseRunning(ctx, js, "writer", "standalone"); err != nil {
		return err
	}
	rewound, err := positions.Rewind(ctx, topology, client.LastRow)
	for _, r := range rewound {
		switch {
		case r.Last >= r.First:
			fmt.Printf("%s: messages %d to %d are stored again.\n", r.Stream, r.First, r.Last)
		case r.Missing > 0:
			fmt.Printf("%s: nothing is stored again.\n", r.Stream)
		}
		if r.Missing > 0 {
			fmt.Printf("%s: the queue no longer has the %d messages before %d.\n", r.Stream, r.Missing, r.First)
		}
	}
	return err
}

// openBuckets creates everything else that any service opens.
func (m *migrate) openBuckets(ctx context.Context, js jetstream.JetStream, shards int) error {
	projects, err := project.Open(ctx, js, project.Config{Replicas: m.Replicas})
	if err != nil {
		return err
	}
	users, err := people.Open(ctx, js, projects, m.Replicas)
	if err != nil {
		return err
	}
	for _, open := range []func() error{
		func() error { _, err := token.Open(ctx, js, projects, m.Replicas); return err },
		func() error { return lease.CreatePresence(ctx, js, m.Replicas) },
		func() error {
			_, err := outbox.Open(ctx, js, outbox.Config{Partitions: shards, Replicas: m.Replicas})
			return err
		},
		func() error { _, err := notify.OpenBucket(ctx, js, m.Replicas); return err },
		func() error { _, err := admin.OpenDeletions(ctx, js, m.Replicas); return err },
		func() error {
			_, err := admin.OpenTrail(ctx, js, slog.New(slog.DiscardHandler), m.Replicas)
			return err
		},
		func() error { _, err := people.OpenSessions(ctx, js, users, m.Replicas); return err },
		func() error { _, err := admin.OpenViews(ctx, js, m.Replicas); return err },
	} {
		if err := open(); err != nil {
			return err
		}
	}
	return nil
}

// retry calls try until it succeeds or ctx ends, and returns its last error.
func retry(ctx context.Context, try func() error) error {
	pauses := backoff.NewExponentialBackOff()
	pauses.MaxInterval = 5 * time.Second
	var last error
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		last = try()
		return struct{}{}, last
	}, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(0))
	if err != nil {
		return last
	}
	return nil
}
