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

// migrate makes what the processes would make at their start: the streams and
// buckets, and the tables. Where it has run, the others need no right to make
// anything.
type migrate struct {
	config.NATS       `embed:""`
	config.ClickHouse `embed:""`
	config.Queue      `embed:""`

	StoreAgain bool `help:"Have the writers store again what the queue has after the newest row of each stream: for after ClickHouse was restored from a backup. No writer may run."`

	Wait time.Duration `default:"2m" help:"How long to wait for engines that do not answer yet."`
}

// Validate refuses a time to wait that leaves none.
func (m *migrate) Validate() error {
	if m.Wait < time.Second {
		return fmt.Errorf("--wait (%s): %s is under 1s", config.Variable("wait"), m.Wait)
	}
	return errors.Join(m.NATS.Validate(), m.ClickHouse.Validate(), m.Queue.Validate())
}

// run carries the command out and returns its exit code.
func (m *migrate) run() int {
	ctx, forget := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer forget()
	ctx, cancel := context.WithTimeout(ctx, m.Wait)
	defer cancel()
	client, err := clickhouse.Open(clickhouse.Config{URL: m.ClickHouseURL.Reveal(), Cluster: m.ClickHouseCluster})
	if err == nil {
		defer func() { _ = client.Close() }() // it has done what it was to do
		err = patiently(ctx, func() error { return client.Migrate(ctx) })
	}
	if err == nil {
		err = m.queue(ctx, client)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "admin: migrate: %v\n", err)
		return 1
	}
	fmt.Println("The queue, the buckets and the tables are as this version needs them.")
	return 0
}

// queue makes the streams and buckets.
func (m *migrate) queue(ctx context.Context, client *clickhouse.Client) error {
	nc, js, err := stream.Connect(ctx, m.NATSURL.Reveal(), stream.ConnectConfig{Name: "admin migrate"})
	if err != nil {
		return err
	}
	defer nc.Close()
	return patiently(ctx, func() error {
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
		if err := m.buckets(ctx, js, topology.Shards()); err != nil {
			return err
		}
		return m.rewind(ctx, js, topology, positions, client)
	})
}

// rewind sets the writers back, where that was asked for, and says how far.
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

// buckets makes what stands beside the streams of records: everything that any
// process opens.
func (m *migrate) buckets(ctx context.Context, js jetstream.JetStream, shards int) error {
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

// patiently tries until it works or ctx ends, and gives the last error.
func patiently(ctx context.Context, try func() error) error {
	waits := backoff.NewExponentialBackOff()
	waits.MaxInterval = 5 * time.Second
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(waits.NextBackOff()):
		}
	}
}
