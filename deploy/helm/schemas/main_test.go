package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

const swagger = `{"definitions": {
	"io.k8s.api.apps.v1.Deployment": {"type": "object", "properties": {"spec": {"$ref": "#/definitions/Spec"}},
		"x-kubernetes-group-version-kind": [{"group": "apps", "kind": "Deployment", "version": "v1"}]},
	"io.k8s.api.core.v1.Service": {"type": "object", "properties": {"kind": {"type": "string"}},
		"x-kubernetes-group-version-kind": [{"group": "", "kind": "Service", "version": "v1"}]},
	"Spec": {"type": "object", "description": "long", "properties": {"port": {"$ref": "#/definitions/io.k8s.apimachinery.pkg.util.intstr.IntOrString"},
		"inner": {"$ref": "#/definitions/Spec"}, "labels": {"type": "object", "additionalProperties": {"type": "string"}}}},
	"io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": "string", "format": "int-or-string"}
}}`

func TestEachKindBecomesAFileWithoutReferences(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	source := filepath.Join(folder, "swagger.json")
	if err := os.WriteFile(source, []byte(swagger), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(source, filepath.Join(folder, "out")); err != nil {
		t.Fatal(err)
	}
	const want = `{"additionalProperties":false,"properties":{"spec":{"additionalProperties":false,"properties":{"inner":{},` +
		`"labels":{"additionalProperties":{"type":"string"},"type":"object"},"port":{"type":["string","number"]}},"type":"object"}},"type":"object"}`
	if got, err := os.ReadFile(filepath.Join(folder, "out", "deployment-apps-v1.json")); err != nil || string(got) != want {
		t.Errorf("deployment-apps-v1.json: error %v, content\n%s\nwant\n%s", err, got, want)
	}
	got, err := os.ReadFile(filepath.Join(folder, "out", "service-v1.json"))
	if err != nil || !json.Valid(got) {
		t.Errorf("service-v1.json: error %v, content is not valid JSON: %s", err, got)
	}
}

func TestMalformedSwaggerFileIsRefused(t *testing.T) {
	t.Parallel()
	source := filepath.Join(t.TempDir(), "swagger.json")
	if err := os.WriteFile(source, []byte("["), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(source, t.TempDir()); err == nil {
		t.Error("a malformed swagger file was accepted")
	}
}
