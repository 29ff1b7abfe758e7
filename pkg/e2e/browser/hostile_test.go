package browser

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// hostileTexts returns 200 texts that run a script if a page uses them as
// markup, as an address or as a script.
func hostileTexts() []string {
	shapes := []string{
		`<script>owned=%d</script>`, `"><script>owned=%d</script>`, `'><img src=x onerror=owned=%d>`, `<svg onload=owned=%d>`, `</title><script>owned=%d</script>`,
		`javascript:owned=%d`, `<a href="javascript:owned=%d">x</a>`, `" onmouseover="owned=%d`, `' autofocus onfocus='owned=%d`, `<iframe srcdoc="<script>parent.owned=%d</script>">`,
		`</textarea><script>owned=%d</script>`, `</style><script>owned=%d</script>`, `<details open ontoggle=owned=%d>`, `{{constructor.constructor("owned=%d")()}}`, `${owned=%d}`,
		`<math><mtext></mtext><script>owned=%d</script></math>`, "\x1b]8;;javascript:owned=%d\x07link\x1b]8;;\x07", `<form action=javascript:owned=%d><input type=submit autofocus>`, `<body onpageshow=owned=%d>`, "\u202e<script>owned=%d</script>",
	}
	var list []string
	for i := range 10 {
		for _, shape := range shapes {
			list = append(list, fmt.Sprintf(shape, i)+strings.Repeat("\x00 "[1:], i))
		}
	}
	return list
}

// TestHostileTextsAreShownAsText sends 200 hostile texts in every field and
// opens each page that shows them.
func TestHostileTextsAreShownAsText(t *testing.T) {
	site := start(t)
	var logs, events strings.Builder
	for _, text := range hostileTexts() {
		line, _ := json.Marshal(map[string]any{"data": text, "application": text, "severity": text, "host": text, "source": text, "metadata": map[string]string{text: text, "trace_id": text}}) // strings always encode
		logs.Write(append(line, '\n'))
		line, _ = json.Marshal(map[string]any{"channel": text, "title": text, "description": text, "icon": text, "tags": map[string]string{text: text}}) // strings always encode
		events.Write(append(line, '\n'))
	}
	token := site.createProject(t, "hostile", logs.String(), events.String())
	b := open(t, displays[0])
	b.signIn(b.site.email, b.site.password)
	checkNothingRan := func(page string) {
		t.Helper()
		if owned := b.value(`String(window.owned) + document.querySelectorAll("main script, main iframe, main img, main [onerror], main [onmouseover], main [onfocus], main a[href^='javascript']").length`); owned != "undefined0" {
			t.Errorf("%s: a hostile text ran or became markup: %s", page, owned)
		}
	}
	b.visit("/projects/hostile/logs")
	b.until("the page shows the lines", `document.querySelectorAll(".l").length >= 190`)
	b.value(`(document.querySelectorAll(".l").forEach((row) => { row.open = true }), "opened")`)
	b.until("all lines are open", `document.querySelectorAll(".l .ft, .l .exp .muted").length >= 190`)
	checkNothingRan("explorer")
	b.value(`(document.querySelector("#facets details:not([open])")?.setAttribute("open", ""), "opened")`)
	checkNothingRan("facets")
	b.visit(`/projects/hostile/logs/` + b.value(`document.querySelector(".l").dataset.id`) + "/context")
	b.await("Context of one line")
	checkNothingRan("context")
	b.visit("/projects/hostile/logs?live=1")
	b.until("the live tail is connected", `document.querySelector("#tail-state .ok") !== null`)
	if status := site.post(t, "/v1/logs/hostile", token, logs.String()); status != http.StatusAccepted {
		t.Fatalf("ingest answered %d, want 202", status)
	}
	b.until("the live tail shows the lines", `document.querySelectorAll(".l").length >= 190`)
	checkNothingRan("live tail")
	b.visit("/projects/hostile/events")
	b.await("owned")
	checkNothingRan("events")
	b.navigate("open an event", script(`document.querySelector(".ev-link").click()`))
	b.await("Logs 5 min around it")
	checkNothingRan("an event")
}
