package browser

import (
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
)

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
			b.do("go by keys", chromedp.KeyEvent("g"), chromedp.KeyEvent("o"))
			b.await("Queue by shard")
			b.await("LOGS_0")
			b.until("the process is there", `fetch("/operations").then((a) => a.text()).then((text) => text.includes("<b>standalone</b>"))`)
			b.visit("/operations")
			b.await("standalone")
			b.picture("operations")
			b.check("operations")
		})
	}
}
