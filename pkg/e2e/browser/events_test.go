package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// shopEvents are the events of an example shop.
const shopEvents = `{"channel":"payments","title":"Large order paid","description":"Order 81Q-55207, 1,249.00 EUR, third order of this customer","icon":"★","notify":true,"tags":{"amount":"1249.00","country":"DE","psp":"adyen"}}
{"channel":"incidents","title":"Payments error rate above 5 %","description":"11 of the last 20 calls to payments-gw timed out. The circuit is open, checkout answers 502.","icon":"⚠","notify":true,"tags":{"app":"checkout","upstream":"payments-gw"}}
{"channel":"deploys","title":"checkout 2026.11.20-3 is live","description":"4 commits to eu-central in 1 min 12 s","icon":"⚑","tags":{"version":"2026.11.20-3","region":"eu-central"}}
{"channel":"signups","title":"New business account","description":"Finished sign-up on the Team plan","icon":"☺","tags":{"plan":"team","seats":"12"}}
{"channel":"stock","title":"Stock below minimum","description":"KX-0917 has 14 pieces left, the minimum is 20","icon":"⚙","tags":{"sku":"KX-0917"}}
{"channel":"backups","title":"Nightly backup finished","description":"postgres-main, 84.2 GB in 21 min, checked by restore","icon":"✓","tags":{"db":"postgres-main","size_gb":"84.2"}}
`

func TestFeedShowsChannelsAndAnnouncesNewEvents(t *testing.T) {
	site := start(t)
	token := site.createProject(t, "events", "", shopEvents)
	for _, d := range displays {
		t.Run(d.name, func(t *testing.T) {
			b := open(t, d)
			b.signIn(b.site.email, b.site.password)
			b.visit("/projects/events/events")
			b.await("Large order paid")
			b.check("events")
			if d.touch {
				b.screenshot("events")
			}
			b.navigate("open an event", script(`[...document.querySelectorAll(".ev-link")].find((one) => one.textContent.startsWith("Payments error")).click()`))
			b.await("Logs 5 min around it")
			if !d.touch {
				b.screenshot("events")
			}
			b.check("an event")
			b.navigate("close the event", keys(kb.Escape))
			b.until("the event is closed", `!document.querySelector("#detail")`)
			b.site.post(t, "/v1/events/events", token, `{"channel":"deploys","title":"another one in `+d.name+`"}`)
			b.until("the page announces new events", `!document.querySelector("#fresh").hidden`)
			if strings.Contains(b.visibleText(), "another one in "+d.name) {
				t.Error("the new event appeared before the user asked for it")
			}
			b.click("#fresh a", "another one in "+d.name)
		})
	}
}
