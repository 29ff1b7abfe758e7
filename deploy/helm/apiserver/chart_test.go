package apiserver

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/component-base/version"
)

const (
	chart   = "../logboom"
	release = "release"
)

func TestServerTakesTheChart(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	helm := newHelm(t, c)
	for _, values := range valuesFiles(t) {
		t.Run("manifests of "+name(values), func(t *testing.T) { takesManifests(t, c, helm, values) })
		t.Run("release of "+name(values), func(t *testing.T) { livesThrough(t, c, helm, values) })
	}
	t.Run("one release over all values", func(t *testing.T) { changes(t, c, helm) })
	t.Run("longest name", func(t *testing.T) { takesLongestName(t, c, helm) })
	t.Run("pods that break the restricted standard are refused", func(t *testing.T) { refusesLooserPod(t, c) })
}

// takesManifests has the server judge each object that a values file renders
// to, as if it were applied, and the pods that its controllers would make.
func takesManifests(t *testing.T, c *cluster, helm *helm, values string) {
	namespace := c.namespace(t, "manifests-"+name(values))
	for _, object := range helm.render(t, release, namespace, values) {
		judge(t, c, namespace, object)
	}
}

func judge(t *testing.T, c *cluster, namespace string, object *unstructured.Unstructured) {
	t.Helper()
	if err := c.apply(t.Context(), object, namespace, true); err != nil {
		t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
	}
	pod := podOf(object)
	if pod == nil {
		return
	}
	if err := c.apply(t.Context(), pod, namespace, true); err != nil {
		t.Errorf("pod of %s %s: %v", object.GetKind(), object.GetName(), err)
	}
}

// livesThrough installs a release, changes what an operator changes, goes back,
// and uninstalls. Hooks are left out: nothing would run their Job.
func livesThrough(t *testing.T, c *cluster, helm *helm, values string) {
	namespace := c.namespace(t, "release-"+name(values))
	helm.do(t, "install", release, chart, "-n", namespace, "-f", values, "--no-hooks")
	for _, change := range []string{
		"image.tag=v2,queue.shards=16,settings.LOGBOOM_LOG_LEVEL=warn,stopSeconds=60,drainSeconds=15",
		"ingest.port=8090,ingest.replicas=4,ingest.autoscaling.enabled=false,ingest.service.type=NodePort,writer.replicas=3,networkPolicy.enabled=false",
		"ingest.autoscaling.max=20,notifier.autoscaling.enabled=true,monitoring.podMonitor.enabled=true,monitoring.rules.enabled=true," +
			"bundled.nats.image=nats:2.15.3,bundled.redis.image=redis:8,bundled.clickhouse.resources.limits.memory=9Gi",
	} {
		helm.do(t, "upgrade", release, chart, "-n", namespace, "-f", values, "--no-hooks", "--set", change)
	}
	helm.do(t, "rollback", release, "1", "-n", namespace, "--no-hooks")
	uninstall(t, c, helm, namespace)
}

// changes takes one release from each values file to the next, and back. Those
// with a NATS of the chart's own are at the ends: its volumes cannot become
// others.
func changes(t *testing.T, c *cluster, helm *helm) {
	namespace := c.namespace(t, "changes")
	files := valuesFiles(t)
	files = append(files[1:], files[0])
	helm.do(t, "install", release, chart, "-n", namespace, "-f", files[0], "--no-hooks")
	back := slices.Clone(files)
	slices.Reverse(back)
	for _, values := range append(files[1:], back[1:]...) {
		helm.do(t, "upgrade", release, chart, "-n", namespace, "-f", values, "--no-hooks")
	}
	uninstall(t, c, helm, namespace)
}

// uninstall ends a release and holds what is left to what is meant to be.
func uninstall(t *testing.T, c *cluster, helm *helm, namespace string) {
	t.Helper()
	helm.do(t, "uninstall", release, "-n", namespace)
	left := slices.DeleteFunc(c.list(t, namespace), func(object string) bool {
		// The passwords that the engines' volumes cannot be read without.
		return object == "ServiceAccount default" || object == "Secret "+release+"-logboom-engines"
	})
	if len(left) > 0 {
		t.Errorf("left behind in %s: %s", namespace, strings.Join(left, ", "))
	}
}

// takesLongestName renders with a name of 53 characters, the most that Helm
// lets a release have.
func takesLongestName(t *testing.T, c *cluster, helm *helm) {
	namespace := c.namespace(t, "longest-name")
	for _, object := range helm.render(t, strings.Repeat("release-", 6)+"names", namespace, "../values/bundled.yaml") {
		judge(t, c, namespace, object)
		if kind := object.GetKind(); kind == "StatefulSet" && len(object.GetName()) > 52 {
			t.Errorf("StatefulSet %s: with a revision's hash its name is no label any more", object.GetName())
		}
	}
}

// refusesLooserPod shows that the other tests would notice.
func refusesLooserPod(t *testing.T, c *cluster) {
	namespace := c.namespace(t, "looser")
	pod := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "looser"},
		"spec": map[string]any{"containers": []any{map[string]any{"name": "looser", "image": "looser"}}},
	}}
	if err := c.apply(t.Context(), pod, namespace, true); err == nil || !strings.Contains(err.Error(), "PodSecurity") {
		t.Errorf("a pod without a security context: %v", err)
	}
}

// helm runs the command that LOGBOOM_TEST_HELM names, against the test's server.
type helm struct{ command, config string }

func newHelm(t *testing.T, c *cluster) *helm {
	t.Helper()
	command := os.Getenv("LOGBOOM_TEST_HELM")
	if command == "" {
		t.Fatal("LOGBOOM_TEST_HELM is not set: it names the helm command; make helm-dry-run sets it")
	}
	if strings.HasPrefix(version.Get().GitVersion, "v0.") {
		t.Fatal("the server was built without its version, which the chart asks for; make helm-dry-run gives it")
	}
	return &helm{command: command, config: kubeconfig(t, c.config)}
}

// do runs a command that changes the server.
func (h *helm) do(t *testing.T, args ...string) []byte {
	t.Helper()
	out, err := run(t.Context(), []string{"KUBECONFIG=" + h.config, "HELM_CACHE_HOME=" + t.TempDir()}, h.command, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// render gives the objects of a values file, hooks too. The file names the
// kinds of operators that it wants there as test.sh reads them.
func (h *helm) render(t *testing.T, release, namespace, values string) []*unstructured.Unstructured {
	t.Helper()
	args := []string{"template", release, chart, "-n", namespace, "-f", values, "--kube-version", version.Get().GitVersion}
	text, err := os.ReadFile(values)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if apis, found := strings.CutPrefix(line, "# apis: "); found {
			args = append(args, "--api-versions", strings.TrimSpace(apis))
		}
	}
	list := objects(t, h.do(t, args...))
	if len(list) == 0 {
		t.Fatalf("%s renders to nothing", values)
	}
	return list
}

// podOf is the pod that a controller would make of its template, with a volume
// for each of its claims; nil of anything else.
func podOf(object *unstructured.Unstructured) *unstructured.Unstructured {
	template, found, err := unstructured.NestedMap(object.Object, "spec", "template")
	if err != nil || !found {
		return nil
	}
	pod := &unstructured.Unstructured{Object: template}
	pod.SetAPIVersion("v1")
	pod.SetKind("Pod")
	pod.SetName(object.GetName() + "-0")
	volumes, _, _ := unstructured.NestedSlice(template, "spec", "volumes")
	claims, _, _ := unstructured.NestedSlice(object.Object, "spec", "volumeClaimTemplates")
	for _, claim := range claims {
		name, _, _ := unstructured.NestedString(claim.(map[string]any), "metadata", "name")
		volumes = append(volumes, map[string]any{"name": name, "persistentVolumeClaim": map[string]any{"claimName": name}})
	}
	if len(volumes) > 0 {
		if err := unstructured.SetNestedSlice(template, volumes, "spec", "volumes"); err != nil {
			panic(fmt.Sprintf("volumes that were read cannot be written: %v", err))
		}
	}
	return pod
}

func valuesFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../values/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no values to render: %v", err)
	}
	return files
}

func name(values string) string { return strings.TrimSuffix(filepath.Base(values), ".yaml") }
