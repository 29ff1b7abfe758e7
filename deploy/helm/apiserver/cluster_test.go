package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// operators lists the modules that define the kinds which the chart uses for
// monitoring and autoscaling, with the files of the definitions.
var operators = map[string][]string{
	"github.com/prometheus-operator/prometheus-operator@v0.85.0": {
		"example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
		"example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
	},
	"github.com/kedacore/keda/v2@v2.21.0": {"config/crd/bases/keda.sh_scaledobjects.yaml"},
}

// cluster is an API server with the operators' kinds, and a client that collects
// the server's warnings.
type cluster struct {
	config   *rest.Config
	client   *dynamic.DynamicClient
	finder   *restmapper.DeferredDiscoveryRESTMapper
	warnings *warnings
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{config: startServer(t), warnings: &warnings{}}
	c.config.WarningHandlerWithContext = c.warnings
	var err error
	if c.client, err = dynamic.NewForConfig(c.config); err != nil {
		t.Fatal(err)
	}
	discover, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		t.Fatal(err)
	}
	c.finder = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discover))
	c.awaitAddresses(t)
	for module, files := range operators {
		c.install(t, module, files)
	}
	return c
}

// install installs the kinds of an operator and waits until the server offers
// them.
func (c *cluster) install(t *testing.T, module string, files []string) {
	t.Helper()
	folder := download(t, module)
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range objects(t, text) {
			if err := c.apply(t.Context(), kind, "", false); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			c.awaitServed(t, kind.GetName())
		}
	}
}

// awaitAddresses waits until the server assigns addresses to services. It starts
// to do so some time after it reports that it is ready, and then creates its own
// service.
func (c *cluster) awaitAddresses(t *testing.T) {
	t.Helper()
	services := c.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "services"}).Namespace("default")
	eventually(t, "the server's own service exists", func() error {
		_, err := services.Get(t.Context(), "kubernetes", metav1.GetOptions{})
		return err
	})
}

// awaitServed waits until objects of a kind can be stored, and then until
// discovery lists the kind, which happens later.
func (c *cluster) awaitServed(t *testing.T, name string) {
	t.Helper()
	kinds := c.client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	eventually(t, name+" is established", func() error {
		kind, err := kinds.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(kind.Object, "status", "conditions")
		for _, condition := range conditions {
			if c, ok := condition.(map[string]any); ok && c["type"] == "Established" && c["status"] == "True" {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", conditions)
	})
	eventually(t, name+" is listed by discovery", func() error { return c.checkListed(name) })
}

// checkListed returns an error unless discovery lists a kind of that name. It
// uses no cache, as Helm uses none.
func (c *cluster) checkListed(name string) error {
	discover, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return err
	}
	_, lists, err := discover.ServerGroupsAndResources()
	if err != nil {
		return err
	}
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return err
		}
		for _, resource := range list.APIResources {
			if resource.Name+"."+group.Group == name {
				return nil
			}
		}
	}
	return fmt.Errorf("none of the server's %d groups has %s", len(lists), name)
}

// eventually calls check until it returns no error, and fails the test after
// startTimeout. The condition is for the failure's message.
func eventually(t *testing.T, condition string, check func() error) {
	t.Helper()
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(50 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not true after %s: %s: %v", startTimeout, condition, err)
		}
	}
}

// download downloads a module and returns the folder of its source.
func download(t *testing.T, module string) string {
	t.Helper()
	text, err := run(t.Context(), []string{"GOFLAGS=-mod=mod", "GOWORK=off"}, "go", "mod", "download", "-json", module)
	var answer struct{ Dir string }
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	if err != nil {
		t.Fatal(err)
	}
	return answer.Dir
}

// namespace creates a namespace that accepts only pods of the restricted
// standard, and the service account under which pods run.
func (c *cluster) namespace(t *testing.T, name string) string {
	t.Helper()
	for _, object := range []map[string]any{
		{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name, "labels": map[string]any{
			"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted",
		}}},
		{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": "default"}},
	} {
		if err := c.apply(t.Context(), &unstructured.Unstructured{Object: object}, name, false); err != nil {
			t.Fatal(err)
		}
	}
	return name
}

// apply applies an object, without storing it if dry is true. A warning of the
// server counts as an error.
func (c *cluster) apply(ctx context.Context, object *unstructured.Unstructured, namespace string, dry bool) error {
	resource, err := c.resource(object, namespace)
	if err != nil {
		return err
	}
	options := metav1.ApplyOptions{FieldManager: "test", Force: true}
	if dry {
		options.DryRun = []string{metav1.DryRunAll}
	}
	_ = c.warnings.drain() // warnings of earlier requests
	if _, err := resource.Apply(ctx, object.GetName(), object, options); err != nil {
		return err
	}
	return c.warnings.drain()
}

// resource returns the client for objects of the object's kind.
func (c *cluster) resource(object *unstructured.Unstructured, namespace string) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	mapping, err := c.finder.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		c.finder.Reset()
		if mapping, err = c.finder.RESTMapping(kind.GroupKind(), kind.Version); err != nil {
			return nil, err
		}
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return c.client.Resource(mapping.Resource), nil
	}
	return c.client.Resource(mapping.Resource).Namespace(namespace), nil
}

// list names every object in a namespace except events: the server itself writes
// events when it sees a service before its address.
func (c *cluster) list(t *testing.T, namespace string) []string {
	t.Helper()
	discover, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := discover.ServerPreferredNamespacedResources()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list"}}, lists) {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, resource := range list.APIResources {
			if resource.Kind == "Event" {
				continue
			}
			found, err := c.client.Resource(group.WithResource(resource.Name)).Namespace(namespace).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, object := range found.Items {
				names = append(names, resource.Kind+" "+object.GetName())
			}
		}
	}
	return names
}

// plain returns a config for the server's paths that are not resources, such as
// /readyz.
func plain(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.GroupVersion = &schema.GroupVersion{}
	config.NegotiatedSerializer = serializer.WithoutConversionCodecFactory{CodecFactory: scheme.Codecs}
	return config
}

// objects parses YAML or JSON manifests.
func objects(t *testing.T, text []byte) []*unstructured.Unstructured {
	t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	var list []*unstructured.Unstructured
	for {
		var object unstructured.Unstructured
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(object.Object) > 0 {
			list = append(list, &object)
		}
	}
}

// warnings collects the server's warnings.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// drain returns the warnings since the last call as one error, or nil.
func (w *warnings) drain() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	texts := w.texts
	w.texts = nil
	if len(texts) == 0 {
		return nil
	}
	return fmt.Errorf("the server warned: %s", strings.Join(texts, "; "))
}
