package e2e

import (
	"context"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// builtOnce builds the processes under test and the nats-server that go.mod pins,
// in bin/e2e, which git ignores.
var builtOnce = sync.OnceValues(func() (string, error) {
	folder, err := filepath.Abs(filepath.Join("..", "..", "bin", "e2e"))
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 9*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "go", "build", "-o", folder+"/",
		"github.com/logboom/logboom/cmd/ingest",
		"github.com/logboom/logboom/cmd/writer",
		"github.com/logboom/logboom/cmd/notifier",
		"github.com/logboom/logboom/cmd/admin",
		"github.com/logboom/logboom/cmd/standalone",
		"github.com/nats-io/nats-server/v2",
	)
	if out, err := command.CombinedOutput(); err != nil {
		return "", &exec.Error{Name: string(out), Err: err}
	}
	return folder, nil
})

// binary returns the path of a built process.
func binary(t testing.TB, name string) string {
	t.Helper()
	folder, err := builtOnce()
	if err != nil {
		t.Fatalf("build the processes: %v", err)
	}
	return filepath.Join(folder, name)
}
