package browser

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// hostile are 200 texts that would run if anything took them for markup, an
// address or a script.
func hostile() []string {
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

// TestNothingOfALineRuns sends 200 hostile texts through every field and looks
// at each page that shows them.
func TestNothingOfALineRuns(t *testing.T) {
	site := start(t)
	var logs, events strings.Builder
	for _, text := range hostile() {
		line, _ := json.Marshal(map[string]any{"data": text, "application": text, "severity": text, "host": text, "source": text, "metadata": map[string]string{text: text, "trace_id": text}}) // it is plain text
		logs.Write(append(line, '\n'))
		line, _ = json.Marshal(map[string]any{"channel": text, "title": text, "description": text, "icon": text, "tags": map[string]string{text: text}}) // it is plain text
		events.Write(append(line, '\n'))
	}
	token := site.stocked(t, "hostile", logs.String(), events.String())
	b := open(t, looks[0])
	b.signIn(b.site.email, b.site.password)
	quiet := func(where string) {
		t.Helper()
		if owned := b.value(`String(window.owned) + document.querySelectorAll("main script, main iframe, main img, main [onerror], main [onmouseover], main [onfocus], main a[href^='javascript']").length`); owned != "undefined0" {
			t.Errorf("%s: something ran or was taken for markup: %s", where, owned)
		}
	}
	b.visit("/projects/hostile/logs")
	b.until("the lines are there", `document.querySelectorAll(".l").length >= 190`)
	b.value(`(document.querySelectorAll(".l").forEach((row) => { row.open = true }), "opened")`)
	b.until("all of them are open", `document.querySelectorAll(".l .ft, .l .exp .muted").length >= 190`)
	quiet("explorer")
	b.value(`(document.querySelector("#facets details:not([open])")?.setAttribute("open", ""), "opened")`)
	quiet("facets")
	b.visit(`/projects/hostile/logs/` + b.value(`document.querySelector(".l").dataset.id`) + "/context")
	b.await("Context of one line")
	quiet("context")
	b.visit("/projects/hostile/logs?live=1")
	b.until("it is connected", `document.querySelector("#tail-state .ok") !== null`)
	if status := site.post(t, "/v1/logs/hostile", token, logs.String()); status != http.StatusAccepted {
		t.Fatalf("answer %d", status)
	}
	b.until("the tail shows them", `document.querySelectorAll(".l").length >= 190`)
	quiet("live tail")
	b.visit("/projects/hostile/events")
	b.await("owned")
	quiet("events")
	b.leave("open an event", script(`document.querySelector(".ev-link").click()`))
	b.await("Logs 5 min around it")
	quiet("an event")
}
