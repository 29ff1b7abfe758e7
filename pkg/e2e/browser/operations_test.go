package browser

import (
	"net/http"
	"testing"
)

// stopTimers stops the page's timers, so that the page does not refresh during
// the checks. It is true if it stopped them before the page was due to refresh.
const stopTimers = `document.readyState === "complete" && (() => {
	const chip = document.querySelector("#updated");
	const age = Number(chip.textContent.match(/updated (\d+) s ago/)?.[1] ?? 0);
	if (age >= Number(chip.dataset.every)) return false;
	for (let timer = setTimeout(() => {}); timer > 0; timer--) clearInterval(timer);
	return true;
})()`

func TestOperationsPageShowsTheQueueAndTheProcess(t *testing.T) {
	site := start(t)
	if status := site.post(t, "/v1/logs/demo", site.token, `{"data":"a line"}`); status != http.StatusAccepted {
		t.Fatalf("ingest answered %d, want 202", status)
	}
	for _, d := range displays {
		t.Run(d.name, func(t *testing.T) {
			b := open(t, d)
			b.signIn(b.site.email, b.site.password)
			b.navigate("press g o", keys("g", "o"))
			b.await("Queue by shard")
			b.await("LOGS_0")
			b.until("the page lists the process", `fetch("/operations").then((a) => a.text()).then((text) => text.includes("<b>standalone</b>"))`)
			b.visit("/operations")
			b.until("the page no longer refreshes", stopTimers)
			b.await("standalone")
			b.screenshot("operations")
			b.check("operations")
		})
	}
}
