package browser

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// checker returns the accessibility checker's script, which `make assets`
// downloads.
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

// check runs the accessibility checker on the current page. It also checks that
// the page is no wider than the window and has no inline style.
func (b *tab) check(page string) {
	b.t.Helper()
	b.checkPart(page, "html")
}

// checkPart is like check, but runs the checker only on the elements that the
// selector matches. It is for a list that opens over the page: the checker
// cannot judge the elements under it.
func (b *tab) checkPart(page, selector string) {
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
			b.t.Errorf("%s, %s: %s (%s)\n%s\n%s", page, b.display.name, v.Help, v.ID, node.HTML, node.FailureSummary)
		}
	}
	if wide := b.value(`String(document.documentElement.scrollWidth - document.documentElement.clientWidth)`); wide != "0" {
		b.t.Errorf("%s, %s: the page is %s pixels wider than the window", page, b.display.name, wide)
	}
	if inline := b.value(`String(document.querySelectorAll("main [style], header [style]").length)`); inline != "0" {
		b.t.Errorf("%s: %s elements have inline style", page, inline)
	}
}
