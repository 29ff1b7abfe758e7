// Package engines tests the configurations in deploy/engines: each user may do
// its own work and nothing else. The tests of the cluster use the same files.
package engines

import (
	"os"
	"testing"

	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
)

const secret = "password-for-tests-only"

func TestMain(m *testing.M) { enginetest.Main(m) }

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
