// Package alerts tests that the alert rules, the dashboards and the runbook
// agree with each other and name only metrics that exist.
package alerts

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"

	"github.com/logboom/logboom/pkg/config"
	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/ingest"
	"github.com/logboom/logboom/pkg/notify"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/quota"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/telemetry"
	"github.com/logboom/logboom/pkg/token"
	"github.com/logboom/logboom/pkg/writer"
)

const runbook = "../../docs/operations.md"

type rule struct {
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

func rules(t *testing.T) []rule {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal([]byte(read(t, "rules.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	var all []rule
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("rules.yaml has no rules")
	}
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEachRuleHasARunbookParagraph(t *testing.T) {
	t.Parallel()
	text := read(t, runbook)
	for _, r := range rules(t) {
		if r.Annotations["summary"] == "" || r.Labels["severity"] != "page" && r.Labels["severity"] != "ticket" {
			t.Errorf("%s has no summary, or its severity is not page or ticket", r.Alert)
		}
		if want := "docs/operations.md#" + strings.ToLower(r.Alert); r.Annotations["runbook"] != want {
			t.Errorf("%s: runbook is %q, want %q", r.Alert, r.Annotations["runbook"], want)
		}
		_, after, found := strings.Cut(text, "\n### "+r.Alert+"\n")
		if paragraph, _, _ := strings.Cut(after, "\n#"); !found || len(strings.TrimSpace(paragraph)) < 100 {
			t.Errorf("docs/operations.md does not say what to do about %s", r.Alert)
		}
	}
}

func TestEachRunbookHeadingNamesARule(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, r := range rules(t) {
		known[r.Alert] = true
	}
	for _, heading := range regexp.MustCompile(`(?m)^### (Logboom\w+)$`).FindAllStringSubmatch(read(t, runbook), -1) {
		if !known[heading[1]] {
			t.Errorf("docs/operations.md explains %s, but rules.yaml has no such rule", heading[1])
		}
	}
}

var metricName = regexp.MustCompile(`\blogboom_[a-z0-9_]+`)

func TestEachNamedMetricExists(t *testing.T) {
	t.Parallel()
	known := registered(t)
	files := append(must(filepath.Glob("../dashboards/*.json")), "rules.yaml", "../helm/logboom/templates/processes.yaml", runbook)
	for _, file := range files {
		for _, name := range metricName.FindAllString(read(t, file), -1) {
			base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
			if !known[name] && !known[base] && !isUser(name) {
				t.Errorf("%s names %s, which no process registers", file, name)
			}
		}
	}
}

// isUser reports whether a name is that of a ClickHouse user. These names look
// like metrics.
func isUser(name string) bool {
	switch name {
	case "logboom_admin", "logboom_writer", "logboom_notifier", "logboom_reader":
		return true
	}
	return false
}

func must(files []string, err error) []string {
	if err != nil {
		panic(err) // cannot happen: the pattern is a valid constant
	}
	return files
}

var described = regexp.MustCompile(`fqName: "([^"]+)"`)

// registered returns the names of the metrics that the processes register.
func registered(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	descriptions := make(chan *prometheus.Desc)
	registry := startedRegistry(t)
	go func() {
		defer close(descriptions)
		registry.Describe(descriptions)
	}()
	for description := range descriptions {
		names[described.FindStringSubmatch(description.String())[1]] = true
	}
	// Only cmd/standalone registers these, so read their names from its source.
	for _, name := range metricName.FindAllString(read(t, "../../cmd/standalone/disk.go"), -1) {
		names[name] = true
	}
	return names
}

// startedRegistry returns the registry of a process after its services have
// started.
func startedRegistry(t *testing.T) *prometheus.Registry {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	server, err := embedded.StartNATS(ctx, embedded.NATSConfig{DataDir: t.TempDir(), MaxStore: 4 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop(context.Background()) })
	var registry *prometheus.Registry
	code := telemetry.Run(ctx, telemetry.Config{Name: "all", OpsAddr: "127.0.0.1:0", StopTimeout: time.Minute}, slog.New(slog.DiscardHandler),
		func(ctx context.Context, p *telemetry.Process) error {
			registry = p.Registry
			defer cancel() // the registry is complete once the services have started
			return start(ctx, p, server.URL())
		})
	if code != 0 {
		t.Fatalf("the services exited with code %d", code)
	}
	return registry
}

// start starts ingest and creates the other services, so that all register
// their metrics.
func start(ctx context.Context, p *telemetry.Process, address string) error {
	nc, js, err := stream.Connect(ctx, address, stream.ConnectConfig{Name: "test"})
	if err != nil {
		return err
	}
	p.OnStop("queue connection", func(context.Context) error { nc.Close(); return nil })
	topology, err := stream.Open(ctx, js, stream.Config{Shards: 1, MaxBytes: 16 << 20, DeadMaxBytes: 16 << 20})
	if err != nil {
		return err
	}
	projects, err := project.Open(ctx, js, project.Config{})
	if err != nil {
		return err
	}
	tokens, err := token.Open(ctx, js, projects, 1)
	if err != nil {
		return err
	}
	writer.New(writer.Deps{Logger: p.Logger, Registry: p.Registry, Queue: topology})
	notify.New(notify.Config{}, notify.Deps{Logger: p.Logger, Registry: p.Registry, Queue: topology})
	telemetry.NewRequests("admin", p.Logger, p.Registry)
	var settings config.Intake
	if _, err := config.Parse("ingest", "", &settings, []string{"--ingest-addr=127.0.0.1:0"}, os.Stderr); err != nil {
		return err
	}
	_, err = ingest.Start(p, settings, ingest.Connections{
		Topology: topology, Tokens: tokens, Shared: token.NewMemoryShared(), Limiter: quota.NewMemory(quota.Config{}),
	})
	return err
}
