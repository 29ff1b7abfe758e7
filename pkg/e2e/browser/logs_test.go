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

// shop are the lines of an invented shop, from a time backwards.
func shop(now time.Time, lines int) string {
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
		}) // it is plain text
		b.Write(line)
		b.WriteByte('\n')
	}
	return b.String()
}

// TestExplorerShowsFiltersAndOpensLines walks the explorer in every look.
func TestExplorerShowsFiltersAndOpensLines(t *testing.T) {
	site := start(t)
	site.stocked(t, "checkout-prod", shop(time.Now(), 900), "")
	for _, l := range looks {
		t.Run(l.name, func(t *testing.T) {
			b := open(t, l)
			b.signIn(b.site.email, b.site.password)
			b.visit("/projects/checkout-prod/logs?q=" + url.QueryEscape(`severity>=warn app:checkout "timeout"`))
			b.await("payment authorisation failed")
			b.roomy()
			b.check("explorer")
			b.do("open a line", chromedp.Click(chromedp.CSS(".l:nth-of-type(6) > summary")))
			b.until("all fields are there", `document.querySelectorAll(".l[open] .ft > div").length > 8`)
			b.picture("explorer")
			b.do("look elsewhere", chromedp.MouseEvent(chromedp.MouseMoved, 5, 5))
			b.check("explorer with an open line")
			if marks := b.value(`String(document.querySelectorAll(".ln mark").length > 5)`); marks != "true" {
				t.Error("what the query found is not marked")
			}
			b.visit("/projects/checkout-prod/logs?q=" + url.QueryEscape(`severity>=error app:mailer "connection reset"`))
			b.await("No lines match")
			b.picture("explorer-empty")
			b.check("nothing found")
			b.visit("/projects/checkout-prod/logs?q=" + url.QueryEscape(`app:checkout (timeout`))
			b.await("Missing closing parenthesis")
			b.expected("400")
			b.check("a query with a fault")
			b.picture("explorer-fault")
		})
	}
}

// roomy makes rows as high as pointers need that do not point well; the usual
// ones are lower, for whoever reads much.
func (b *tab) roomy() {
	b.t.Helper()
	b.value(`(document.querySelector("#density").getAttribute("aria-pressed") === "true" || document.querySelector("#density").click(), "higher")`)
}

// TestContextShowsWhatStoodAroundALine goes there by the key and back by Escape.
func TestContextShowsWhatStoodAroundALine(t *testing.T) {
	site := start(t)
	site.stocked(t, "context", shop(time.Now(), 300), "")
	for _, l := range looks {
		t.Run(l.name, func(t *testing.T) {
			b := open(t, l)
			b.signIn(b.site.email, b.site.password)
			b.visit("/projects/context/logs?q=fatal+OR+authorisation")
			b.await("payment authorisation failed")
			b.leave("choose a line and its context", keys("j", "j", "c"))
			b.await("Context of one line")
			b.until("the line is open", `document.querySelectorAll(".l.linked[open] .ft > div").length > 8`)
			b.picture("context")
			b.roomy()
			b.check("context")
			b.leave("go back", keys(kb.Escape))
			b.until("the results are there", `!document.body.innerText.includes("Context of one line") && document.querySelector("#query").value === "fatal OR authorisation"`)
		})
	}
}

// TestLiveTailFollowsPausesAndGoesOn watches lines come, scrolls up, and goes
// back to the end.
func TestLiveTailFollowsPausesAndGoesOn(t *testing.T) {
	site := start(t)
	token := site.stocked(t, "tail", shop(time.Now(), 20), "")
	for _, l := range looks {
		t.Run(l.name, func(t *testing.T) {
			b := open(t, l)
			b.signIn(b.site.email, b.site.password)
			b.visit("/projects/tail/logs?live=1&q=" + url.QueryEscape("-app:healthcheck"))
			b.await("Live")
			b.until("it is connected", `document.querySelector("#tail-state .ok") !== null`)
			send := func(from, n int) {
				var body strings.Builder
				for i := range n {
					fmt.Fprintf(&body, `{"data":"line %04d of the tail","application":"checkout","severity":"info","host":"web-01"}`+"\n", from+i)
				}
				if status := b.site.post(t, "/v1/logs/tail", token, body.String()+`{"data":"left out","application":"healthcheck"}`); status != http.StatusAccepted {
					t.Fatalf("answer %d", status)
				}
			}
			send(0, 100)
			b.await("line 0099 of the tail")
			b.until("it shows the newest", `(() => { const r = document.querySelector("#rows"); return r.scrollHeight - r.scrollTop - r.clientHeight < 30 })()`)
			b.value(`(document.querySelector("#rows").scrollTop -= 300, "scrolled")`)
			b.await("because you scrolled up")
			send(100, 40)
			b.until("lines wait", `document.querySelector("[data-waiting]").textContent === "40"`)
			b.picture("live")
			b.roomy()
			b.check("live tail")
			before := b.value(`String(document.querySelector("#rows").scrollTop)`)
			send(140, 10)
			b.until("more lines wait", `document.querySelector("[data-waiting]").textContent === "50"`)
			if after := b.value(`String(document.querySelector("#rows").scrollTop)`); after != before {
				t.Errorf("the list moved from %s to %s under the reader", before, after)
			}
			b.do("resume by key", keys("l"))
			b.await("line 0149 of the tail")
			if text := b.seen(); strings.Contains(text, "left out") {
				t.Error("the tail shows what the query leaves out")
			}
		})
	}
}

// TestLinesThatFloodATabAreSampledAndCounted sends more than a person could see.
func TestLinesThatFloodATabAreSampledAndCounted(t *testing.T) {
	site := start(t)
	token := site.stocked(t, "flood", shop(time.Now(), 1), "")
	b := open(t, looks[0])
	b.signIn(b.site.email, b.site.password)
	b.visit("/projects/flood/logs?live=1")
	b.until("it is connected", `document.querySelector("#tail-state .ok") !== null`)
	if status := site.post(t, "/v1/logs/flood", token, strings.Repeat(`{"data":"one of very many lines"}`+"\n", 4000)); status != http.StatusAccepted {
		t.Fatalf("answer %d", status)
	}
	b.until("each line is shown or counted", `document.querySelectorAll("#rows .l").length + Number(document.querySelector("[data-unsent]").textContent.replaceAll(",", "")) === 4000`)
	b.await("lines not sent to this tab")
}

// TestQueryIsCompletedRunAndBrushed types a query with its completions, narrows
// the list by the chart and zooms.
func TestQueryIsCompletedRunAndBrushed(t *testing.T) {
	site := start(t)
	site.stocked(t, "query", shop(time.Now(), 300), "")
	b := open(t, looks[1])
	b.signIn(b.site.email, b.site.password)
	b.visit("/projects/query/logs")
	b.await("lines")
	b.do("type all at once", chromedp.Focus(chromedp.CSS("#query")), insert("hos")) // a list for "ho" would do for the next line, and not for Tab
	b.until("the field is offered", `[...document.querySelectorAll("#complete li")].some((li) => li.textContent.startsWith("host"))`)
	b.do("insert it", keys(kb.Tab))
	b.until("its values are offered", `document.querySelectorAll("#complete li")[1]?.textContent.startsWith("web-02")`)
	b.picture("completion")
	b.checkPart("completion", "#query-form")
	b.leave("choose the second and run", keys(kb.ArrowDown, kb.ArrowDown, kb.Enter, kb.Enter))
	b.until("it has run", `new URLSearchParams(location.search).get("q")?.trim() === "host:web-02" && document.readyState === "complete" && document.querySelector("#plot") !== null`)
	total := b.value(`document.querySelector(".status b").textContent`)
	b.leave("select a time", drag("#plot", .3, .6))
	b.until("the list is narrowed", `location.search.includes("sel=") && document.body.innerText.includes("in selection")`)
	if text := b.seen(); !strings.Contains(text, "of "+total+" in range") {
		t.Errorf("the range is no longer %s:\n%s", total, text)
	}
	b.picture("brush")
	b.leave("zoom", keys("z"))
	b.until("the selection is the range", `!location.search.includes("sel=") && location.search.includes("from=")`)
	b.leave("go back", script(`history.back()`))
	b.until("back undoes", `location.search.includes("sel=")`)
}

// TestFacetsFilterAndSavedViewsComeBack clicks values in and out, saves what is
// there and comes back to it.
func TestFacetsFilterAndSavedViewsComeBack(t *testing.T) {
	site := start(t)
	site.stocked(t, "facets", shop(time.Now(), 300), "")
	b := open(t, looks[0])
	b.signIn(b.site.email, b.site.password)
	b.visit("/projects/facets/logs")
	b.await("eu-central")
	query := func(want string) {
		t.Helper()
		b.until("the query is "+want, fmt.Sprintf(`document.readyState === "complete" && document.querySelector("#query").defaultValue === %q`, want))
	}
	pick := func(value, part string) {
		t.Helper()
		b.leave("pick "+value, script(fmt.Sprintf(`[...document.querySelectorAll("#facets .fv")].find((one) => one.querySelector(".t").textContent.trim() === %q).querySelector(%q).click()`, value, part)))
	}
	pick("cart", ".pick")
	query("app:cart")
	pick("mailer", ".pick")
	query("app:(cart OR mailer)")
	pick("us-east", ".exclude")
	query("app:(cart OR mailer) -region:us-east")
	pick("cart", ".pick")
	query("app:mailer -region:us-east")
	b.do("open the saved ones", chromedp.Click(chromedp.CSS(".saved > summary")))
	b.fill("input[form=save]", "mail <b>of</b> Europe")
	b.leave("save", chromedp.Click(chromedp.CSS("button[form=save]")))
	b.until("it is saved", `document.readyState === "complete" && document.querySelector(".saved-name") !== null`)
	b.visit("/projects/facets/logs")
	b.do("open the saved ones", chromedp.Click(chromedp.CSS(".saved > summary")))
	b.await("mail <b>of</b> Europe")
	b.picture("saved-views")
	b.check("saved views")
	b.leave("go there", chromedp.Click(chromedp.CSS(".saved-pop a.grow")))
	query("app:mailer -region:us-east")
	b.do("open the saved ones", chromedp.Click(chromedp.CSS(".saved > summary")))
	b.leave("forget it", chromedp.Click(chromedp.CSS("[form=forget]")))
	b.until("it is gone", `document.readyState === "complete" && !document.querySelector("[form=forget]")`)
}
