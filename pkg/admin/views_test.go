package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/stream/streamtest"
)

// patient returns the test's context with a deadline. Without one, the client of
// the queue uses its own timeout of 5 s.
func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func openViews(t *testing.T) *Views {
	t.Helper()
	server, err := embedded.StartNATS(patient(t), embedded.NATSConfig{DataDir: t.TempDir(), MaxStore: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop(context.Background()) })
	nc, js, err := stream.Connect(patient(t), server.URL(), streamtest.Calm("test"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if _, err := OpenViews(patient(t), js, 1); err != nil {
		t.Fatal(err)
	}
	v, err := OpenViews(patient(t), js, 1) // a second process
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func namesOf(t *testing.T, v *Views, projectID, person string) string {
	t.Helper()
	list, err := v.List(patient(t), projectID, person)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, one := range list {
		all = append(all, one.Name)
	}
	return strings.Join(all, " ")
}

func TestViewsBelongToOnePersonInOneProject(t *testing.T) {
	t.Parallel()
	v := openViews(t)
	for _, name := range []string{"b", "a", "b"} {
		if err := v.Save(patient(t), "shop~1", "ada@example.org", View{Name: name, State: "q=x"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := namesOf(t, v, "shop~1", "Ada@example.org"); got != "a b" {
		t.Errorf("saved: %q", got)
	}
	for _, other := range [][2]string{{"shop~1", "bob@example.org"}, {"other~2", "ada@example.org"}} {
		if got := namesOf(t, v, other[0], other[1]); got != "" {
			t.Errorf("%v sees %q", other, got)
		}
	}
	list, _ := v.List(patient(t), "shop~1", "ada@example.org")
	if err := v.Delete(patient(t), "shop~1", "bob@example.org", list[0].ID); err != nil {
		t.Fatal(err)
	}
	if err := v.Delete(patient(t), "shop~1", "ada@example.org", list[1].ID); err != nil {
		t.Fatal(err)
	}
	if got := namesOf(t, v, "shop~1", "ada@example.org"); got != "a" {
		t.Errorf("after deleting one: %q", got)
	}
}

func TestViewsSavedAtTheSameTimeAreAllStored(t *testing.T) {
	t.Parallel()
	v := openViews(t)
	var group sync.WaitGroup
	for i := range 3 {
		group.Go(func() {
			if err := v.Save(patient(t), "shop~1", "ada@example.org", View{Name: fmt.Sprint("v", i)}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := namesOf(t, v, "shop~1", "ada@example.org"); got != "v0 v1 v2" {
		t.Errorf("saved: %q", got)
	}
}

func TestViewsAreBounded(t *testing.T) {
	t.Parallel()
	v := openViews(t)
	for i := range maxViews {
		if err := v.Save(patient(t), "shop~1", "ada@example.org", View{Name: fmt.Sprint("v", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := v.Save(patient(t), "shop~1", "ada@example.org", View{Name: "one more"}); !errors.Is(err, project.ErrFull) {
		t.Errorf("one more: %v", err)
	}
	if err := v.Save(patient(t), "shop~1", "bob@example.org", View{Name: "long", State: strings.Repeat("x", maxViewState+1)}); !errors.Is(err, project.ErrFull) {
		t.Errorf("a long one: %v", err)
	}
}
