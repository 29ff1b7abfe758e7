package browser

import (
	"net/http"
	"testing"
)

// standStill ends the page's timers, so that it is not read again while it is
// looked at. It is true once it did so before the page asked for that.
const standStill = `document.readyState === "complete" && (() => {
	const chip = document.querySelector("#updated");
	const age = Number(chip.textContent.match(/updated (\d+) s ago/)?.[1] ?? 0);
	if (age >= Number(chip.dataset.every)) return false;
	for (let timer = setTimeout(() => {}); timer > 0; timer--) clearInterval(timer);
	return true;
})()`

// TestOperationsTellHowItIs looks at the page of operations, as one who may and
// as one who may not.
func TestOperationsTellHowItIs(t *testing.T) {
	site := start(t)
	if status := site.post(t, "/v1/logs/demo", site.token, `{"data":"a line"}`); status != http.StatusAccepted {
		t.Fatalf("answer %d", status)
	}
	for _, l := range looks {
		t.Run(l.name, func(t *testing.T) {
			b := open(t, l)
			b.signIn(b.site.email, b.site.password)
			b.leave("go by keys", keys("g", "o"))
			b.await("Queue by shard")
			b.await("LOGS_0")
			b.until("the process is there", `fetch("/operations").then((a) => a.text()).then((text) => text.includes("<b>standalone</b>"))`)
			b.visit("/operations")
			b.until("the page stands still", standStill)
			b.await("standalone")
			b.picture("operations")
			b.check("operations")
		})
	}
}
