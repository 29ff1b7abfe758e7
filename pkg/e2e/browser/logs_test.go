package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// shopLogs returns the log lines of an example shop. The newest is from now, the
// others are older.
func shopLogs(now time.Time, lines int) string {
	messages := []struct{ app, severity, data string }{
		{"checkout", "error", "payment authorisation failed: upstream timeout after 5000ms"},
		{"checkout", "warn", "retrying reserve_stock: read timeout from stock-api"},
		{"checkout", "warn", "circuit payments-gw half-open, last 20 calls: 11 timeout, 9 ok"},
		{"payments", "info", "authorised"}, {"checkout", "info", "POST /v2/checkout 201"}, {"cart", "debug", "session refreshed"},
		{"inventory", "info", "reserved 2 × KX-0917"}, {"mailer", "info", "sent order_confirmation"}, {"checkout", "info", "order placed"},
		{"cart", "info", "cart updated"}, {"checkout", "fatal", "worker 7 stopped: health probe timeout, restarting in 2s"},
	}
	var b bytes.Buffer
	for i := range lines {
		m := messages[i%len(messages)]
		if i%121 != 10 && m.severity == "fatal" {
			m = messages[4]
		}
		at := now.Add(-time.Duration(i) * 9 * time.Second)
		if i%7 == 0 {
			at = now.Add(-20*time.Minute - time.Duration(i%240)*2*time.Second)
		}
		line, _ := json.Marshal(map[string]any{
			"timestamp": at.Format(time.RFC3339Nano), "application": m.app, "severity": m.severity, "data": m.data, "host": fmt.Sprintf("web-%02d", i%3+1),
			"metadata": map[string]any{"order": fmt.Sprintf("81Q-%d", 55000+i), "dur_ms": 300 + i%50, "region": []string{"eu-central", "us-east"}[i%2], "trace_id": fmt.Sprintf("7f0c2e9a41d84b6c%016x", i/3), "upstream": []string{"payments-gw", "stock-api", "tax-rates"}[i%3]},
		}) // strings and numbers always encode
		b.Write(line)
		b.WriteByte('\n')
	}
	return b.String()
}

func TestExplorerFiltersMarksAndOpensLines(t *testing.T) {
	site := start(t)
	site.createProject(t, "checkout-prod", shopLogs(time.Now(), 900), "")
	for _, d := range displays {
		t.Run(d.name, func(t *testing.T) {
			b := open(t, d)
			b.signIn(b.site.email, b.site.password)
			b.visit("/projects/checkout-prod/logs?q=" + url.QueryEscape(`severity>=warn app:checkout "timeout"`))
			b.await("payment authorisation failed")
			b.comfortableRows()
			b.check("explorer")
			b.do("open a line", chromedp.Click(chromedp.CSS(".l:nth-of-type(6) > summary")))
			b.until("the line shows all fields", `document.querySelectorAll(".l[open] .ft > div").length > 8`)
			b.screenshot("explorer")
			b.do("move the mouse away", chromedp.MouseEvent(chromedp.MouseMoved, 5, 5))
			b.check("explorer with an open line")
			if marks := b.value(`String(document.querySelectorAll(".ln mark").length > 5)`); marks != "true" {
				t.Error("the matches of the query are not marked")
			}
			b.visit("/projects/checkout-prod/logs?q=" + url.QueryEscape(`severity>=error app:mailer "connection reset"`))
			b.await("No lines match")
			b.screenshot("explorer-empty")
			b.check("no matches")
			b.visit("/projects/checkout-prod/logs?q=" + url.QueryEscape(`app:checkout (timeout`))
			b.await("Missing closing parenthesis")
			b.expectConsoleError("400")
			b.check("invalid query")
			b.screenshot("explorer-fault")
		})
	}
}

// comfortableRows switches to the higher rows. The checker requires them: the
// default rows are too low to be hit with an imprecise pointer.
func (b *tab) comfortableRows() {
	b.t.Helper()
	b.value(`(document.querySelector("#density").getAttribute("aria-pressed") === "true" || document.querySelector("#density").click(), "higher")`)
}

// TestContextShowsTheLinesAroundALine opens the context with a key and goes back
// with Escape.
func TestContextShowsTheLinesAroundALine(t *testing.T) {
	site := start(t)
	site.createProject(t, "context", shopLogs(time.Now(), 300), "")
	for _, d := range displays {
		t.Run(d.name, func(t *testing.T) {
			b := open(t, d)
			b.signIn(b.site.email, b.site.password)
			b.visit("/projects/context/logs?q=fatal+OR+authorisation")
			b.await("payment authorisation failed")
			b.navigate("select a line and open its context", keys("j", "j", "c"))
			b.await("Context of one line")
			b.until("the line is open", `document.querySelectorAll(".l.linked[open] .ft > div").length > 8`)
			b.screenshot("context")
			b.comfortableRows()
			b.check("context")
			b.navigate("go back", keys(kb.Escape))
			b.until("the page shows the results again", `!document.body.innerText.includes("Context of one line") && document.querySelector("#query").value === "fatal OR authorisation"`)
		})
	}
}

// TestLiveTailFollowsPausesAndResumes waits for new lines, scrolls up, and goes
// back to the end.
func TestLiveTailFollowsPausesAndResumes(t *testing.T) {
	site := start(t)
	token := site.createProject(t, "tail", shopLogs(time.Now(), 20), "")
	for _, d := range displays {
		t.Run(d.name, func(t *testing.T) {
			b := open(t, d)
			b.signIn(b.site.email, b.site.password)
			b.visit("/projects/tail/logs?live=1&q=" + url.QueryEscape("-app:healthcheck"))
			b.await("Live")
			b.until("the live tail is connected", `document.querySelector("#tail-state .ok") !== null`)
			send := func(from, n int) {
				var body strings.Builder
				for i := range n {
					fmt.Fprintf(&body, `{"data":"line %04d of the tail","application":"checkout","severity":"info","host":"web-01"}`+"\n", from+i)
				}
				if status := b.site.post(t, "/v1/logs/tail", token, body.String()+`{"data":"left out","application":"healthcheck"}`); status != http.StatusAccepted {
					t.Fatalf("ingest answered %d, want 202", status)
				}
			}
			send(0, 100)
			b.await("line 0099 of the tail")
			b.until("the page shows the newest line", `(() => { const r = document.querySelector("#rows"); return r.scrollHeight - r.scrollTop - r.clientHeight < 30 })()`)
			b.value(`(document.querySelector("#rows").scrollTop -= 300, "scrolled")`)
			b.await("because you scrolled up")
			send(100, 40)
			b.until("40 lines wait", `document.querySelector("[data-waiting]").textContent === "40"`)
			b.screenshot("live")
			b.comfortableRows()
			b.check("live tail")
			before := b.value(`String(document.querySelector("#rows").scrollTop)`)
			send(140, 10)
			b.until("50 lines wait", `document.querySelector("[data-waiting]").textContent === "50"`)
			if after := b.value(`String(document.querySelector("#rows").scrollTop)`); after != before {
				t.Errorf("the list scrolled from %s to %s while it was paused", before, after)
			}
			b.do("resume with a key", keys("l"))
			b.await("line 0149 of the tail")
			if text := b.visibleText(); strings.Contains(text, "left out") {
				t.Error("the live tail shows a line that the query excludes")
			}
		})
	}
}

// TestLinesThatFloodATabAreSampledAndCounted sends more lines than a tab shows.
func TestLinesThatFloodATabAreSampledAndCounted(t *testing.T) {
	site := start(t)
	token := site.createProject(t, "flood", shopLogs(time.Now(), 1), "")
	b := open(t, displays[0])
	b.signIn(b.site.email, b.site.password)
	b.visit("/projects/flood/logs?live=1")
	b.until("the live tail is connected", `document.querySelector("#tail-state .ok") !== null`)
	if status := site.post(t, "/v1/logs/flood", token, strings.Repeat(`{"data":"one of very many lines"}`+"\n", 4000)); status != http.StatusAccepted {
		t.Fatalf("ingest answered %d, want 202", status)
	}
	b.until("each line is shown or counted", `document.querySelectorAll("#rows .l").length + Number(document.querySelector("[data-unsent]").textContent.replaceAll(",", "")) === 4000`)
	b.await("lines not sent to this tab")
}

// TestQueryIsCompletedRunAndNarrowed types a query with completions, selects a
// time range in the chart and zooms in.
func TestQueryIsCompletedRunAndNarrowed(t *testing.T) {
	site := start(t)
	site.createProject(t, "query", shopLogs(time.Now(), 300), "")
	b := open(t, displays[1])
	b.signIn(b.site.email, b.site.password)
	b.visit("/projects/query/logs")
	b.await("lines")
	b.do("insert the text at once", chromedp.Focus(chromedp.CSS("#query")), insert("hos")) // with the list for "ho" the next line would pass, but Tab would not work
	b.until("the field is suggested", `[...document.querySelectorAll("#complete li")].some((li) => li.textContent.startsWith("host"))`)
	b.do("accept the suggestion", keys(kb.Tab))
	b.until("its values are suggested", `document.querySelectorAll("#complete li")[1]?.textContent.startsWith("web-02")`)
	b.screenshot("completion")
	b.checkPart("completion", "#query-form")
	b.navigate("choose the second value and run the query", keys(kb.ArrowDown, kb.ArrowDown, kb.Enter, kb.Enter))
	b.until("the query has run", `new URLSearchParams(location.search).get("q")?.trim() === "host:web-02" && document.readyState === "complete" && document.querySelector("#plot") !== null`)
	total := b.value(`document.querySelector(".status b").textContent`)
	b.navigate("select a time range", drag("#plot", .3, .6))
	b.until("the list is narrowed", `location.search.includes("sel=") && document.body.innerText.includes("in selection")`)
	if text := b.visibleText(); !strings.Contains(text, "of "+total+" in range") {
		t.Errorf("the page no longer shows the total %s of the range:\n%s", total, text)
	}
	b.screenshot("brush")
	b.navigate("zoom", keys("z"))
	b.until("the selection is the range", `!location.search.includes("sel=") && location.search.includes("from=")`)
	b.navigate("go back", script(`history.back()`))
	b.until("the selection is restored", `location.search.includes("sel=")`)
}

// TestFacetsFilterAndSavedViewsRestoreTheQuery includes and excludes values,
// saves the view and opens it again.
func TestFacetsFilterAndSavedViewsRestoreTheQuery(t *testing.T) {
	site := start(t)
	site.createProject(t, "facets", shopLogs(time.Now(), 300), "")
	b := open(t, displays[0])
	b.signIn(b.site.email, b.site.password)
	b.visit("/projects/facets/logs")
	b.await("eu-central")
	query := func(want string) {
		t.Helper()
		b.until("the query is "+want, fmt.Sprintf(`document.readyState === "complete" && document.querySelector("#query").defaultValue === %q`, want))
	}
	pick := func(value, part string) {
		t.Helper()
		b.navigate("pick "+value, script(fmt.Sprintf(`[...document.querySelectorAll("#facets .fv")].find((one) => one.querySelector(".t").textContent.trim() === %q).querySelector(%q).click()`, value, part)))
	}
	pick("cart", ".pick")
	query("app:cart")
	pick("mailer", ".pick")
	query("app:(cart OR mailer)")
	pick("us-east", ".exclude")
	query("app:(cart OR mailer) -region:us-east")
	pick("cart", ".pick")
	query("app:mailer -region:us-east")
	b.do("open the saved views", chromedp.Click(chromedp.CSS(".saved > summary")))
	b.fill("input[form=save]", "mail <b>of</b> Europe")
	b.navigate("save", chromedp.Click(chromedp.CSS("button[form=save]")))
	b.until("the view is saved", `document.readyState === "complete" && document.querySelector(".saved-name") !== null`)
	b.visit("/projects/facets/logs")
	b.do("open the saved views", chromedp.Click(chromedp.CSS(".saved > summary")))
	b.await("mail <b>of</b> Europe")
	b.screenshot("saved-views")
	b.check("saved views")
	b.navigate("open the saved view", chromedp.Click(chromedp.CSS(".saved-pop a.grow")))
	query("app:mailer -region:us-east")
	b.do("open the saved views", chromedp.Click(chromedp.CSS(".saved > summary")))
	b.navigate("delete the saved view", chromedp.Click(chromedp.CSS("[form=forget]")))
	b.until("the saved view is deleted", `document.readyState === "complete" && !document.querySelector("[form=forget]")`)
}
