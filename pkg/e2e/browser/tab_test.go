package browser

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// displays lists the displays on which most tests run.
var displays = []display{
	{"light", "light", 1440, 900, false},
	{"dark", "dark", 1440, 900, false},
	{"phone", "light", 390, 844, true},
}

// display is a colour scheme and the size of a screen.
type display struct {
	name, scheme  string
	width, height int64
	touch         bool
}

// tab is a tab in its own browser context: it shares no cookies with other tabs.
type tab struct {
	t       *testing.T
	ctx     context.Context
	site    *installation
	display display

	consoleRead chan struct{} // closed when the console's last message was read

	mu            sync.Mutex
	consoleErrors []string // errors and warnings in the browser's console
}

// lastMessage is written to the console at the end of a test.
const lastMessage = "end of the test"

// open opens a tab. The test fails if the console has unexpected errors at its
// end.
func open(t *testing.T, d display) *tab {
	t.Helper()
	site := start(t)
	ctx, cancel := chromedp.NewContext(site.browser, chromedp.WithNewBrowserContext())
	b := &tab{t: t, ctx: ctx, site: site, display: d, consoleRead: make(chan struct{})}
	console := chromedp.Console(ctx)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		b.readConsole(console)
	}()
	t.Cleanup(func() {
		if t.Failed() {
			b.saveFailure()
		} else {
			b.awaitConsole()
		}
		cancel()
		<-closed
		for _, text := range b.consoleErrors {
			t.Errorf("the browser's console shows: %s", text)
		}
	})
	b.emulate(d)
	return b
}

// readConsole collects the console's errors and warnings until the tab is closed.
func (b *tab) readConsole(console iter.Seq2[chromedp.ConsoleMessage, error]) {
	for message, err := range console {
		switch {
		case err != nil:
			return
		case message.Type == chromedp.ConsoleDebug && message.Text == lastMessage:
			close(b.consoleRead)
		case message.Type == chromedp.ConsoleError, message.Type == chromedp.ConsoleWarning, message.IsException():
			b.addConsoleError(message.String() + " " + message.URL)
		}
	}
}

// awaitConsole waits until every message of the console was read. Messages arrive
// in order, but later than the page shows their cause.
func (b *tab) awaitConsole() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, script(fmt.Sprintf("console.debug(%q)", lastMessage))); err != nil {
		b.t.Errorf("write the console's last message: %v", err)
		return
	}
	select {
	case <-b.consoleRead:
	case <-ctx.Done():
		b.t.Errorf("the console's last message did not arrive within %s", patience)
	}
}

// emulate changes the tab's colours and size.
func (b *tab) emulate(d display) {
	b.t.Helper()
	b.display = d
	size := chromedp.EmulateViewport(d.width, d.height)
	if d.touch {
		size = chromedp.EmulateViewport(d.width, d.height, chromedp.EmulateTouch, chromedp.EmulateMobile)
	}
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: d.scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}}
	b.do("set colours and size", size, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, media)
		return err
	}))
}

func (b *tab) addConsoleError(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.consoleErrors = append(b.consoleErrors, text)
}

// expectConsoleError waits for a console error that contains the text, and
// removes it: the console reports a refused form too, shortly after the page.
func (b *tab) expectConsoleError(part string) {
	b.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !b.removeConsoleError(part) {
		select {
		case <-tick.C:
		case <-deadline.C:
			b.t.Fatalf("the console did not show %s within %s", part, patience)
		}
	}
}

// removeConsoleError removes a console error that contains the text, and reports
// whether there was one.
func (b *tab) removeConsoleError(part string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := slices.IndexFunc(b.consoleErrors, func(text string) bool { return strings.Contains(text, part) })
	if at < 0 {
		return false
	}
	b.consoleErrors = slices.Delete(b.consoleErrors, at, at+1)
	return true
}

// awaitLoad waits until the page has loaded and its scripts have run.
func (b *tab) awaitLoad() {
	b.t.Helper()
	b.until("the page has loaded", `document.readyState === "complete"`)
}

// do runs steps. The purpose is for the failure's message. It first waits for the
// page's scripts, which would otherwise miss a key. Use navigate for steps that
// lead to another page.
func (b *tab) do(purpose string, steps ...step) {
	b.t.Helper()
	b.awaitLoad()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatalf("%s: %v\n%s", purpose, err, b.visibleText())
	}
}

// navigate runs steps that lead to another page, and waits until that has
// loaded. Until then the old page is shown, which has loaded too.
func (b *tab) navigate(purpose string, steps ...step) {
	b.t.Helper()
	b.awaitLoad()
	old := b.value(`String(performance.timeOrigin)`)
	b.do(purpose, steps...)
	b.until("another page has loaded: "+purpose, fmt.Sprintf(`document.readyState === "complete" && String(performance.timeOrigin) !== %q`, old))
}

// visibleText returns the page's address and visible text.
func (b *tab) visibleText() string {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href + "\n" + document.body?.innerText`))
	if err != nil {
		return err.Error()
	}
	return text
}

// visit opens a page of the site.
func (b *tab) visit(path string) {
	b.t.Helper()
	b.do("visit "+path, chromedp.Navigate(b.site.pages+path), chromedp.WaitVisible(chromedp.CSS("main")))
}

// click clicks an element that leads to another page, and waits until that page
// shows the text.
func (b *tab) click(selector, text string) {
	b.t.Helper()
	b.navigate("click "+selector, chromedp.Click(chromedp.CSS(selector)))
	b.await(text)
}

// fill types into a field.
func (b *tab) fill(selector, text string) {
	b.t.Helper()
	at := chromedp.CSS(selector)
	b.do("wait for "+selector, chromedp.WaitVisible(at))
	b.value(fmt.Sprintf(`document.querySelector(%q).value = ""`, selector))
	b.do("fill "+selector, chromedp.SendKeys(at, text))
	b.until(selector+" contains the typed text", fmt.Sprintf(`document.querySelector(%q).value === %q`, selector, text))
}

// await waits until the page shows the text, also if another page loads.
func (b *tab) await(text string) {
	b.t.Helper()
	b.until("the page shows "+text, fmt.Sprintf(`document.readyState === "complete" && document.body.innerText.includes(%q)`, text))
}

// until waits until a script returns true. It runs the script again each time: a
// script that waits inside a page ends when the page changes. The condition is
// for the failure's message.
func (b *tab) until(condition, script string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if found, err := chromedp.Run(ctx, chromedp.Evaluate[bool](script, chromedp.EvalAwaitPromise)); err == nil && found {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			b.t.Fatalf("not true after %s: %s\n%s", patience, condition, b.visibleText())
		}
	}
}

// value runs a script in the page and returns its result.
func (b *tab) value(script string) string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	found, err := chromedp.Run(ctx, chromedp.Evaluate[string](script, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%.100s: %v\n%s", script, err, b.visibleText())
	}
	return found
}

// signIn signs a user in with the form.
func (b *tab) signIn(email, password string) {
	b.t.Helper()
	b.visit("/sign-in")
	b.fill("#email", email)
	b.fill("#password", password)
	b.click("form[action='/sign-in'] button", "Projects")
}

// screenshot saves a screenshot of the page if LOGBOOM_SCREENSHOTS is set.
func (b *tab) screenshot(name string) {
	b.t.Helper()
	b.awaitLoad()
	if err := b.save(name + "-" + b.display.name); err != nil {
		b.t.Fatal(err)
	}
}

// saveFailure saves a screenshot of the page on which a test failed, if that is
// possible.
func (b *tab) saveFailure() {
	_ = b.save("failed-" + strings.ReplaceAll(b.t.Name(), "/", "-"))
}

// save saves a screenshot if LOGBOOM_SCREENSHOTS is set.
func (b *tab) save(name string) error {
	folder := os.Getenv("LOGBOOM_SCREENSHOTS")
	if folder == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	content, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, name+".png"), content, 0o644)
}
