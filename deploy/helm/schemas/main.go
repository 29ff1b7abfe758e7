// Command schemas writes the JSON schemas against which kubeconform checks
// manifests. It reads the OpenAPI description in the source of Kubernetes:
//
//	schemas path/to/swagger.json folder
//
// It writes one file for each kind, with the name that kubeconform expects. All
// references are inlined, and no field is allowed that is not described.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: schemas swagger.json folder")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "schemas:", err)
		os.Exit(1)
	}
}

// object is a JSON object of any shape.
type object = map[string]any

func run(swagger, folder string) error {
	text, err := os.ReadFile(swagger)
	if err != nil {
		return err
	}
	var document struct {
		Definitions map[string]object `json:"definitions"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return fmt.Errorf("%s: %w", swagger, err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, definition := range document.Definitions {
		for _, file := range fileNames(definition) {
			schema := inlined(document.Definitions, definition, []string{name})
			if err := write(filepath.Join(folder, file), schema); err != nil {
				return err
			}
		}
	}
	return nil
}

func write(path string, schema any) error {
	text, err := json.Marshal(schema)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// fileNames returns kind-group-version.json for each kind of a definition, or
// kind-version.json for the kinds of the core group.
func fileNames(definition object) []string {
	kinds, _ := definition["x-kubernetes-group-version-kind"].([]any)
	var names []string
	for _, one := range kinds {
		k, _ := one.(object)
		group, _, _ := strings.Cut(fmt.Sprint(k["group"]), ".")
		parts := []string{fmt.Sprint(k["kind"]), group, fmt.Sprint(k["version"])}
		if group == "" {
			parts = []string{parts[0], parts[2]}
		}
		names = append(names, strings.ToLower(strings.Join(parts, "-"))+".json")
	}
	return names
}

// inlined returns a schema without references. A definition that contains itself
// is not checked inside; only the description of custom resources does.
func inlined(definitions map[string]object, value any, inside []string) any {
	switch v := value.(type) {
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = inlined(definitions, v[i], inside)
		}
		return list
	case object:
		return inlinedObject(definitions, v, inside)
	}
	return value
}

func inlinedObject(definitions map[string]object, v object, inside []string) any {
	if reference, ok := v["$ref"].(string); ok {
		name := strings.TrimPrefix(reference, "#/definitions/")
		for _, outer := range inside {
			if outer == name {
				return object{}
			}
		}
		return inlined(definitions, loosened(name, definitions[name]), append(inside[:len(inside):len(inside)], name))
	}
	schema := make(object, len(v)+1)
	for key, part := range v {
		if !strings.HasPrefix(key, "x-") && key != "description" {
			schema[key] = inlined(definitions, part, inside)
		}
	}
	_, described := v["properties"].(object)
	if _, open := v["additionalProperties"]; described && !open && v["type"] == "object" {
		schema["additionalProperties"] = false
	}
	return schema
}

// loosened returns a definition that accepts what the server accepts: quantities
// and ports may be numbers or strings.
func loosened(name string, definition object) object {
	if strings.HasSuffix(name, ".api.resource.Quantity") || strings.HasSuffix(name, ".util.intstr.IntOrString") {
		return object{"type": []any{"string", "number"}}
	}
	return definition
}
