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

func TestServerAcceptsTheChart(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	helm := newHelm(t, c)
	for _, values := range valuesFiles(t) {
		t.Run("manifests of "+name(values), func(t *testing.T) { acceptsManifests(t, c, helm, values) })
		t.Run("release of "+name(values), func(t *testing.T) { installsUpgradesAndUninstalls(t, c, helm, values) })
	}
	t.Run("one release upgraded through all values files", func(t *testing.T) { upgradesThroughValues(t, c, helm) })
	t.Run("longest name", func(t *testing.T) { acceptsLongestName(t, c, helm) })
	t.Run("pods that break the restricted standard are refused", func(t *testing.T) { refusesUnrestrictedPod(t, c) })
}

// acceptsManifests applies each object that a values file renders to as a dry
// run, and also the pods that the controllers would create.
func acceptsManifests(t *testing.T, c *cluster, helm *helm, values string) {
	namespace := c.namespace(t, "manifests-"+name(values))
	for _, object := range helm.render(t, release, namespace, values) {
		dryRun(t, c, namespace, object)
	}
}

// dryRun applies an object, and the pod of its template if it has one, without
// storing them.
func dryRun(t *testing.T, c *cluster, namespace string, object *unstructured.Unstructured) {
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

// installsUpgradesAndUninstalls installs a release, changes typical values,
// rolls back and uninstalls. It skips hooks: nothing would run their Job.
func installsUpgradesAndUninstalls(t *testing.T, c *cluster, helm *helm, values string) {
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

// upgradesThroughValues upgrades one release from each values file to the next,
// and back. The two files with the chart's own NATS are the first and the last:
// an upgrade cannot change the volumes of a StatefulSet.
func upgradesThroughValues(t *testing.T, c *cluster, helm *helm) {
	namespace := c.namespace(t, "changes")
	files := valuesFiles(t)
	files = append(files[1:], files[0])
	helm.do(t, "install", release, chart, "-n", namespace, "-f", files[0], "--no-hooks")
	reversed := slices.Clone(files)
	slices.Reverse(reversed)
	for _, values := range append(files[1:], reversed[1:]...) {
		helm.do(t, "upgrade", release, chart, "-n", namespace, "-f", values, "--no-hooks")
	}
	uninstall(t, c, helm, namespace)
}

// uninstall uninstalls a release and checks that only the intended objects
// remain.
func uninstall(t *testing.T, c *cluster, helm *helm, namespace string) {
	t.Helper()
	helm.do(t, "uninstall", release, "-n", namespace)
	left := slices.DeleteFunc(c.list(t, namespace), func(object string) bool {
		// The Secret stays: the engines' volumes cannot be read without its passwords.
		return object == "ServiceAccount default" || object == "Secret "+release+"-logboom-engines"
	})
	if len(left) > 0 {
		t.Errorf("objects left in namespace %s: %s", namespace, strings.Join(left, ", "))
	}
}

// acceptsLongestName renders the chart with a release name of 53 characters,
// the longest that Helm accepts.
func acceptsLongestName(t *testing.T, c *cluster, helm *helm) {
	namespace := c.namespace(t, "longest-name")
	for _, object := range helm.render(t, strings.Repeat("release-", 6)+"names", namespace, "../values/bundled.yaml") {
		dryRun(t, c, namespace, object)
		if kind := object.GetKind(); kind == "StatefulSet" && len(object.GetName()) > 52 {
			t.Errorf("the name of StatefulSet %s is too long: with the revision's hash it exceeds a label's 63 characters", object.GetName())
		}
	}
}

// refusesUnrestrictedPod checks that the server refuses a pod without a security
// context. Without this, the other tests would prove nothing.
func refusesUnrestrictedPod(t *testing.T, c *cluster) {
	namespace := c.namespace(t, "unrestricted")
	pod := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "unrestricted"},
		"spec": map[string]any{"containers": []any{map[string]any{"name": "unrestricted", "image": "unrestricted"}}},
	}}
	if err := c.apply(t.Context(), pod, namespace, true); err == nil || !strings.Contains(err.Error(), "PodSecurity") {
		t.Errorf("a pod without a security context was not refused for PodSecurity: %v", err)
	}
}

// helm runs the command that LOGBOOM_TEST_HELM names, against the test's server.
type helm struct{ command, config string }

func newHelm(t *testing.T, c *cluster) *helm {
	t.Helper()
	command := os.Getenv("LOGBOOM_TEST_HELM")
	if command == "" {
		t.Fatal("LOGBOOM_TEST_HELM is not set: it must be the path of the helm command; make helm-dry-run sets it")
	}
	if strings.HasPrefix(version.Get().GitVersion, "v0.") {
		t.Fatal("the server was built without its version, which the chart needs; make helm-dry-run sets it")
	}
	return &helm{command: command, config: kubeconfig(t, c.config)}
}

// do runs helm with the arguments and returns its output.
func (h *helm) do(t *testing.T, args ...string) []byte {
	t.Helper()
	out, err := run(t.Context(), []string{"KUBECONFIG=" + h.config, "HELM_CACHE_HOME=" + t.TempDir()}, h.command, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// render returns the objects that a values file renders to, including hooks.
// Lines "# apis: …" in the file name the operators' kinds that it needs; test.sh
// reads them too.
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
		t.Fatalf("%s renders no objects", values)
	}
	return list
}

// podOf returns the pod that a controller would create from the object's
// template, with a volume for each claim. It returns nil for other objects.
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
			panic(fmt.Sprintf("set the volumes of %s: %v", object.GetName(), err))
		}
	}
	return pod
}

func valuesFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../values/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no values files to render: %v", err)
	}
	return files
}

func name(values string) string { return strings.TrimSuffix(filepath.Base(values), ".yaml") }
