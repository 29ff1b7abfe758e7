package browser

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// checker is the accessibility checker's script, where `make assets` puts it.
var checker = sync.OnceValues(func() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	content, err := os.ReadFile(filepath.Join(base, "logboom", "browser", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		return "", fmt.Errorf("the accessibility checker is missing, run `make assets`: %w", err)
	}
	return string(content), nil
})

// violation is a rule that a page breaks.
type violation struct {
	ID, Help string
	Nodes    []struct {
		HTML           string
		FailureSummary string
	}
}

// check runs the accessibility checker over the page as it stands, and looks
// for what no page may have: a place wider than the window, inline style.
func (b *tab) check(what string) {
	b.t.Helper()
	b.checkPart(what, "html")
}

// checkPart checks what the selector finds: a list that opens over the page
// hides what the rest is judged by.
func (b *tab) checkPart(what, selector string) {
	b.t.Helper()
	script, err := checker()
	if err != nil {
		b.t.Fatal(err)
	}
	found := b.value(script + `; axe.run(` + strconv.Quote(selector) + `, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then((r) => JSON.stringify(r.violations))`)
	var list []violation
	if err := json.Unmarshal([]byte(found), &list); err != nil {
		b.t.Fatal(err)
	}
	for _, v := range list {
		for _, node := range v.Nodes {
			b.t.Errorf("%s, %s: %s (%s)\n%s\n%s", what, b.look.name, v.Help, v.ID, node.HTML, node.FailureSummary)
		}
	}
	if wide := b.value(`String(document.documentElement.scrollWidth - document.documentElement.clientWidth)`); wide != "0" {
		b.t.Errorf("%s, %s: the page is %s pixels wider than the window", what, b.look.name, wide)
	}
	if inline := b.value(`String(document.querySelectorAll("main [style], header [style]").length)`); inline != "0" {
		b.t.Errorf("%s: %s elements with inline style", what, inline)
	}
}
