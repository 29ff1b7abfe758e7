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

// looks are the ways in which every page is walked.
var looks = []look{
	{"light", "light", 1440, 900, false},
	{"dark", "dark", 1440, 900, false},
	{"phone", "light", 390, 844, true},
}

// look is a colour scheme and a size.
type look struct {
	name, scheme  string
	width, height int64
	touch         bool
}

// tab is one tab of a browser of its own: it shares no cookie with the others.
type tab struct {
	t    *testing.T
	ctx  context.Context
	site *installation
	look look

	heard chan struct{} // closed when the console has told its last

	mu         sync.Mutex
	complaints []string // of the browser's console
}

// last is what the console is given at the end of a test.
const last = "that was all"

// open opens a tab. At its end the console must have been silent.
func open(t *testing.T, l look) *tab {
	t.Helper()
	site := start(t)
	ctx, cancel := chromedp.NewContext(site.browser, chromedp.WithNewBrowserContext())
	b := &tab{t: t, ctx: ctx, site: site, look: l, heard: make(chan struct{})}
	console := chromedp.Console(ctx)
	listened := make(chan struct{})
	go func() {
		defer close(listened)
		b.listen(console)
	}()
	t.Cleanup(func() {
		if t.Failed() {
			b.keepPicture()
		} else {
			b.hearOut()
		}
		cancel()
		<-listened
		for _, complaint := range b.complaints {
			t.Errorf("the browser complains: %s", complaint)
		}
	})
	b.takeLook(l)
	return b
}

// listen keeps what the console complains about, until the tab is closed.
func (b *tab) listen(console iter.Seq2[chromedp.ConsoleMessage, error]) {
	for message, err := range console {
		switch {
		case err != nil:
			return
		case message.Type == chromedp.ConsoleDebug && message.Text == last:
			close(b.heard)
		case message.Type == chromedp.ConsoleError, message.Type == chromedp.ConsoleWarning, message.IsException():
			b.complain(message.String() + " " + message.URL)
		}
	}
}

// hearOut waits until all that the console was told has been heard. It tells in
// order, but later than the page shows what it is about.
func (b *tab) hearOut() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, script(fmt.Sprintf("console.debug(%q)", last))); err != nil {
		b.t.Errorf("the console's last: %v", err)
		return
	}
	select {
	case <-b.heard:
	case <-ctx.Done():
		b.t.Error("the console's last was not heard")
	}
}

// takeLook changes the tab's colours and size.
func (b *tab) takeLook(l look) {
	b.t.Helper()
	b.look = l
	size := chromedp.EmulateViewport(l.width, l.height)
	if l.touch {
		size = chromedp.EmulateViewport(l.width, l.height, chromedp.EmulateTouch, chromedp.EmulateMobile)
	}
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: l.scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}}
	b.do("take the look", size, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, media)
		return err
	}))
}

func (b *tab) complain(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaints = append(b.complaints, text)
}

// expected waits for a complaint that holds the text, and forgets it: a refused
// form is shown in the console as well, a little later than in the page.
func (b *tab) expected(part string) {
	b.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !b.forget(part) {
		select {
		case <-tick.C:
		case <-deadline.C:
			b.t.Fatalf("the console tells of no %s", part)
		}
	}
}

// forget takes away a complaint that holds the text, if there is one.
func (b *tab) forget(part string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := slices.IndexFunc(b.complaints, func(complaint string) bool { return strings.Contains(complaint, part) })
	if at < 0 {
		return false
	}
	b.complaints = slices.Delete(b.complaints, at, at+1)
	return true
}

// loaded waits until the page is there, and its scripts have run.
func (b *tab) loaded() {
	b.t.Helper()
	b.until("the page has loaded", `document.readyState === "complete"`)
}

// do takes steps; what says what they are for. A key pressed before the page's
// scripts have run is heard by nobody, so it waits for them. Steps that lead to
// another page are leave's.
func (b *tab) do(what string, steps ...step) {
	b.t.Helper()
	b.loaded()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatalf("%s: %v\n%s", what, err, b.seen())
	}
}

// leave takes steps that lead to another page, and waits for that: the old one
// stands there, loaded, until the new one answers.
func (b *tab) leave(what string, steps ...step) {
	b.t.Helper()
	b.loaded()
	old := b.value(`String(performance.timeOrigin)`)
	b.do(what, steps...)
	b.until("there is another page: "+what, fmt.Sprintf(`document.readyState === "complete" && String(performance.timeOrigin) !== %q`, old))
}

// seen is what a person sees of the page, for messages.
func (b *tab) seen() string {
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

// click clicks what leads to another page, and waits until that shows a text.
func (b *tab) click(selector, then string) {
	b.t.Helper()
	b.leave("click "+selector, chromedp.Click(chromedp.CSS(selector)))
	b.await(then)
}

// fill types into a field.
func (b *tab) fill(selector, text string) {
	b.t.Helper()
	at := chromedp.CSS(selector)
	b.do("wait for "+selector, chromedp.WaitVisible(at))
	b.value(fmt.Sprintf(`document.querySelector(%q).value = ""`, selector))
	b.do("fill "+selector, chromedp.SendKeys(at, text))
	b.until(selector+" holds what was typed", fmt.Sprintf(`document.querySelector(%q).value === %q`, selector, text))
}

// await waits until the page shows the text, also across a change of pages.
func (b *tab) await(text string) {
	b.t.Helper()
	b.until("the page shows "+text, fmt.Sprintf(`document.readyState === "complete" && document.body.innerText.includes(%q)`, text))
}

// until waits until a script is true. It asks anew each time: what waits inside
// a page goes with the page.
func (b *tab) until(what, script string) {
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
			b.t.Fatalf("waited in vain until %s\n%s", what, b.seen())
		}
	}
}

// value evaluates a script in the page.
func (b *tab) value(script string) string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	found, err := chromedp.Run(ctx, chromedp.Evaluate[string](script, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%.100s: %v\n%s", script, err, b.seen())
	}
	return found
}

// signIn goes in by the form, as somebody.
func (b *tab) signIn(email, password string) {
	b.t.Helper()
	b.visit("/sign-in")
	b.fill("#email", email)
	b.fill("#password", password)
	b.click("form[action='/sign-in'] button", "Projects")
}

// picture keeps a picture of the page where somebody asked for pictures.
func (b *tab) picture(name string) {
	b.t.Helper()
	b.loaded()
	if err := b.keep(name + "-" + b.look.name); err != nil {
		b.t.Fatal(err)
	}
}

// keepPicture keeps what a failed test saw last, if it can.
func (b *tab) keepPicture() { _ = b.keep("failed-" + strings.ReplaceAll(b.t.Name(), "/", "-")) }

func (b *tab) keep(name string) error {
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
