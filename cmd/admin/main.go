// Command admin serves the JSON API and the pages, with which people and scripts
// manage projects and read their records. It needs NATS, Redis and ClickHouse,
// and stores nothing itself. Other commands of it migrate the engines, work with
// dead letters, and print a token.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/logboom/logboom/cmd/internal/connect"
	"github.com/logboom/logboom/pkg/admin/server"
	"github.com/logboom/logboom/pkg/config"
	"github.com/logboom/logboom/pkg/people"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/quota"
	"github.com/logboom/logboom/pkg/telemetry"
	"github.com/logboom/logboom/pkg/token"
)

type settings struct {
	Run   serve `cmd:"" default:"withargs" help:"Serve the JSON API and the pages (default)."`
	Token struct {
		New struct{} `cmd:"" help:"Print a new token for LOGBOOM_BOOTSTRAP_TOKEN. No project has it yet."`
	} `cmd:"" help:"Work with tokens."`
	DeadLetters deadLetters `cmd:"" help:"List the messages that could not be stored, and replay them."`
	Migrate     migrate     `cmd:"" help:"Create the streams, buckets and tables or bring them up to date, and exit."`
}

type serve struct {
	config.Process    `embed:""`
	config.NATS       `embed:""`
	config.Redis      `embed:""`
	config.ClickHouse `embed:""`
	config.Queue      `embed:""`
	config.Admin      `embed:""`
	config.Quotas     `embed:""`
	config.Keys       `embed:""`
	config.Webhooks   `embed:""`
	config.Bootstrap  `embed:""`
}

func main() { os.Exit(run()) }

func run() int {
	var cfg settings
	values, code, ok := config.Command("admin", "Serves the JSON API and the pages.", &cfg)
	if !ok {
		return code
	}
	switch {
	case values.Command == "token new":
		fmt.Println(token.New().Reveal())
		return 0
	case values.Command == "migrate":
		return cfg.Migrate.run()
	case strings.HasPrefix(values.Command, "dead-letters "):
		return cfg.DeadLetters.run(values.Command)
	}
	s := cfg.Run
	if err := people.ValidateBootstrap(s.Bootstrap); err != nil {
		fmt.Fprintf(os.Stderr, "admin: %v\n", err)
		return config.ExitBadSettings
	}
	return connect.Main("admin", values, s.Process, func(ctx context.Context, p *telemetry.Process) error {
		conn, err := open(ctx, p, s)
		if err != nil {
			return err
		}
		if _, err := conn.People.Bootstrap(ctx, conn.Tokens, s.Bootstrap, false); err != nil {
			return err
		}
		_, err = server.Start(ctx, p, s.Admin, connect.Quotas(s.Quotas), conn)
		return err
	})
}

// open connects to the engines.
func open(ctx context.Context, p *telemetry.Process, cfg serve) (conn server.Connections, err error) {
	js, err := connect.Queue(ctx, p, "admin", cfg.NATSURL.Reveal(), cfg.Process, cfg.Replicas)
	if err != nil {
		return conn, err
	}
	conn.Queue, conn.Replicas = js, cfg.Replicas
	conn.Projects, err = project.Open(ctx, js, project.Config{
		Replicas: cfg.Replicas, Defaults: connect.Quotas(cfg.Quotas), Key: cfg.SecretKey, OldKeys: cfg.OldSecretKeys,
	})
	if err != nil {
		return conn, err
	}
	if conn.Tokens, err = token.Open(ctx, js, conn.Projects, cfg.Replicas); err != nil {
		return conn, err
	}
	if conn.People, err = people.Open(ctx, js, conn.Projects, cfg.Replicas); err != nil {
		return conn, err
	}
	if conn.Webhooks, conn.Signatures, err = connect.Webhooks(cfg.Webhooks, cfg.Keys); err != nil {
		return conn, err
	}
	client, err := connect.Redis(p, cfg.RedisURL.Reveal())
	if err != nil {
		return conn, err
	}
	conn.Counters = quota.NewRedis(client, quota.Config{Logger: p.Logger})
	conn.Client, err = connect.ClickHouse(p, cfg.ClickHouseURL.Reveal(), cfg.ClickHouseCluster)
	return conn, err
}
