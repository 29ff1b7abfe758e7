// Package docs_test checks the documents against the tree: links, tables of
// contents, the length of the README, and the settings.
package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/logboom/logboom/pkg/config"
)

const maxReadmeWords = 900

func TestEveryLinkHasATarget(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^()\s]+)\)`)
	for _, path := range documents(t) {
		for _, match := range link.FindAllStringSubmatch(withoutCode(read(t, path)), -1) {
			target := match[1]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file, anchor, _ := strings.Cut(target, "#")
			linked := path
			if file != "" {
				linked = filepath.Join(filepath.Dir(path), filepath.FromSlash(file))
			}
			if _, err := os.Stat(linked); err != nil {
				t.Errorf("%s links to %s: %v", path, target, err)
				continue
			}
			if anchor != "" && !slices.Contains(anchors(read(t, linked)), anchor) {
				t.Errorf("%s links to %s, but the file has no such heading", path, target)
			}
		}
	}
}

// TestEveryDocumentNamedInTheTreeExists finds names such as docs/api.md, with
// or without an anchor, in code, charts, rules and scripts.
func TestEveryDocumentNamedInTheTreeExists(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`\bdocs/[a-z0-9/_-]+\.md(?:#[a-z0-9_-]+)?|\b(?:README|CHANGELOG|CONTRIBUTING|SECURITY)\.md(?:#[a-z0-9_-]+)?`)
	text := []string{".go", ".yaml", ".yml", ".sql", ".sh", ".html", ".js", ".json", ".tpl", ".txt", ".md", ".xml", ".conf", ""}
	err := filepath.WalkDir("..", func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains([]string{".git", "bin", "data", "node_modules", "apiserver"}, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() || !slices.Contains(text, filepath.Ext(path)) {
			return nil
		}
		for _, found := range name.FindAllString(read(t, path), -1) {
			file, anchor, _ := strings.Cut(found, "#")
			document, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(file)))
			if err != nil {
				t.Errorf("%s names %s: %v", path, found, err)
			} else if anchor != "" && !slices.Contains(anchors(string(document)), anchor) {
				t.Errorf("%s names %s, but the file has no such heading", path, found)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestEveryDeclarationNamedInTheDocumentsExists checks names such as
// `stream.Publisher` and `ingest.Server.receive` in the documents for
// contributors.
func TestEveryDeclarationNamedInTheDocumentsExists(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile("`([a-z]+)((?:\\.[A-Za-z]\\w*){1,2})(?:\\(\\))?`")
	packages, declared := declarations(t)
	decisions, err := filepath.Glob("decisions/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(decisions, "architecture.md", "performance.md", "../CONTRIBUTING.md") {
		for _, match := range name.FindAllStringSubmatch(withoutCode(read(t, path)), -1) {
			if packages[match[1]] && !declared[match[1]+match[2]] {
				t.Errorf("%s names %s%s, which the code does not declare", path, match[1], match[2])
			}
		}
	}
}

// TestEachGuideListsItsHeadings compares the first list of each guide with the
// guide's second-level headings, in order.
func TestEachGuideListsItsHeadings(t *testing.T) {
	t.Parallel()
	entry := regexp.MustCompile(`^- \[(.+)\]\(#(.+)\)$`)
	for _, path := range guides(t) {
		text := withoutCode(read(t, path))
		var want, got []string
		var started bool
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\n")
			if heading, ok := strings.CutPrefix(line, "## "); ok {
				want = append(want, heading+" #"+anchor(heading))
				started = true
			} else if match := entry.FindStringSubmatch(line); match != nil && !started {
				got = append(got, match[1]+" #"+match[2])
			}
		}
		if len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("%s: the table of contents\n\t%s\ndiffers from the headings\n\t%s", path, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
		}
	}
}

func TestReadmeIsShort(t *testing.T) {
	t.Parallel()
	if words := len(strings.Fields(read(t, "../README.md"))); words > maxReadmeWords {
		t.Errorf("README.md has %d words, want at most %d", words, maxReadmeWords)
	}
}

func TestEveryErrorCodeIsDocumented(t *testing.T) {
	t.Parallel()
	reference := read(t, "api.md")
	code := regexp.MustCompile(`\b[cC]ode\w*(?:, [\w.]+)?(?:: +| :?= )(?:[\w.]+, )?"([a-z]+_[a-z_]+)"`)
	found := 0
	for _, root := range []string{"../pkg/ingest", "../pkg/admin", "../pkg/decode", "../pkg/problem"} {
		err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			for _, match := range code.FindAllStringSubmatch(read(t, path), -1) {
				found++
				if !strings.Contains(reference, "`"+match[1]+"`") {
					t.Errorf("api.md does not list the error code %s of %s", match[1], path)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 20 {
		t.Errorf("found only %d error codes in the source, want at least 20: the test no longer recognizes them", found)
	}
}

// TestEverySettingIsDocumentedWithItsDefault reads the settings from the source:
// a test cannot import a command.
func TestEverySettingIsDocumentedWithItsDefault(t *testing.T) {
	t.Parallel()
	rows := map[string][]string{} // by variable: the other cells of each row
	for line := range strings.Lines(read(t, "configuration.md")) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if variable := strings.Trim(strings.TrimSpace(cells[0]), "`"); strings.HasPrefix(variable, "LOGBOOM_") {
			rows[variable] = append(rows[variable], strings.Join(cells[1:], "|"))
		}
	}
	known := map[string]bool{}
	for _, s := range settings(t) {
		known[s.variable] = true
		documented := slices.ContainsFunc(rows[s.variable], func(row string) bool {
			return s.value == "" || strings.Contains(row, "`"+s.value+"`")
		})
		if !documented {
			t.Errorf("configuration.md does not list %s with its default %q", s.variable, s.value)
		}
	}
	for variable := range rows {
		if !known[variable] {
			t.Errorf("configuration.md lists %s, but there is no such setting", variable)
		}
	}
	if len(known) < 50 {
		t.Errorf("found only %d settings in the source, want at least 50: the test no longer recognizes them", len(known))
	}
}

// declarations returns the names of the packages in the tree, and of their
// functions, types and methods as pkg.Func, pkg.Type and pkg.Type.Method.
func declarations(t *testing.T) (packages, declared map[string]bool) {
	t.Helper()
	packages, declared = map[string]bool{}, map[string]bool{}
	add := func(path string) error {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		pkg := file.Name.Name
		packages[pkg] = true
		for _, declaration := range file.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				name := pkg + "."
				if d.Recv != nil {
					name += receiver(d.Recv.List[0].Type) + "."
				}
				declared[name+d.Name.Name] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok {
						declared[pkg+"."+s.Name.Name] = true
						if i, ok := s.Type.(*ast.InterfaceType); ok {
							for _, method := range i.Methods.List {
								for _, n := range method.Names {
									declared[pkg+"."+s.Name.Name+"."+n.Name] = true
								}
							}
						}
					}
				}
			}
		}
		return nil
	}
	for _, root := range []string{"../pkg", "../cmd", "../schema"} {
		err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			return add(path)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return packages, declared
}

// receiver returns the name of a method's type.
func receiver(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// TestEveryDependencyIsDocumented compares the modules that the code imports with
// docs/dependencies.md.
func TestEveryDependencyIsDocumented(t *testing.T) {
	t.Parallel()
	document, modules := read(t, "dependencies.md"), read(t, "../go.mod")
	module := regexp.MustCompile(`(?m)^\s+(\S+/\S+) v\S+$`)
	for _, match := range module.FindAllStringSubmatch(modules, -1) {
		if !strings.Contains(document, "`"+match[1]+"`") {
			t.Errorf("dependencies.md does not list %s", match[1])
		}
	}
	row := regexp.MustCompile(`(?m)^\|([^|]+)\|`)
	name := regexp.MustCompile("`([^`]+/[^`]+)`")
	for _, cell := range row.FindAllStringSubmatch(document, -1) {
		for _, match := range name.FindAllStringSubmatch(cell[1], -1) {
			if !strings.Contains(modules, match[1]+" ") {
				t.Errorf("dependencies.md lists %s, but go.mod does not require it", match[1])
			}
		}
	}
}

// setting is a field of a struct that pkg/config parses.
type setting struct{ variable, value string }

func settings(t *testing.T) (found []setting) {
	t.Helper()
	files, err := filepath.Glob("../pkg/config/*.go")
	if err != nil {
		t.Fatal(err)
	}
	mains, err := filepath.Glob("../cmd/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range slices.Concat(files, mains) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			field, ok := node.(*ast.Field)
			if !ok || field.Tag == nil || len(field.Names) != 1 {
				return true
			}
			tag := reflect.StructTag(strings.Trim(field.Tag.Value, "`"))
			_, command := tag.Lookup("cmd")
			_, argument := tag.Lookup("arg")
			if _, ok := tag.Lookup("help"); !ok || command || argument || tag.Get("env") == "-" {
				return true
			}
			name := tag.Get("name")
			if name == "" {
				name = dashed(field.Names[0].Name)
			}
			variable := tag.Get("env")
			if variable == "" {
				variable = config.Variable(name)
			}
			found = append(found, setting{variable, tag.Get("default")})
			return true
		})
	}
	return found
}

// dashed returns the name of a field's flag: body-bytes for BodyBytes and ops-url
// for OpsURL.
func dashed(field string) string {
	var name strings.Builder
	runes := []rune(field)
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			name.WriteByte('-')
		}
		name.WriteRune(unicode.ToLower(r))
	}
	return name.String()
}

func guides(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("*.md")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no guides found: %v", err)
	}
	return paths
}

// documents returns the paths of the guides, the decisions and the documents in
// the root folder.
func documents(t *testing.T) []string {
	t.Helper()
	decisions, err := filepath.Glob("decisions/*.md")
	if err != nil || len(decisions) == 0 {
		t.Fatalf("no decisions found: %v", err)
	}
	root, err := filepath.Glob("../*.md")
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(guides(t), decisions, root)
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var fences = regexp.MustCompile("(?ms)^ *```.*?^ *```$")

// withoutCode removes code blocks, in which # and [] have other meanings.
func withoutCode(text string) string { return fences.ReplaceAllString(text, "") }

// anchors returns the anchors that GitHub gives to a document's headings.
func anchors(text string) (names []string) {
	seen := map[string]int{}
	for line := range strings.Lines(withoutCode(text)) {
		heading := strings.TrimLeft(strings.TrimSpace(line), "#")
		if !strings.HasPrefix(line, "#") || !strings.HasPrefix(heading, " ") {
			continue
		}
		name := anchor(strings.TrimSpace(heading))
		if n := seen[name]; n > 0 {
			names = append(names, fmt.Sprintf("%s-%d", name, n))
		} else {
			names = append(names, name)
		}
		seen[name]++
	}
	return names
}

// anchor returns the anchor of a heading: lower case, without punctuation, with
// dashes between words.
func anchor(heading string) string {
	var name strings.Builder
	for _, r := range strings.ToLower(heading) {
		switch {
		case r == ' ':
			name.WriteByte('-')
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			name.WriteRune(r)
		}
	}
	return name.String()
}
