// Package engines holds the configurations of deploy/engines to their word:
// each user may do its work, and nothing else. That the work can be done with
// them is shown by the tests of the cluster, which run with the same files.
package engines

import (
	"os"
	"testing"

	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
)

const secret = "of-this-test-alone"

func TestMain(m *testing.M) { enginetest.Main(m) }

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
