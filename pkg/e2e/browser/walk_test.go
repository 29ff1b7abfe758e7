package browser

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestNewUserSendsTheFirstLog signs in, creates a project and a token, sends a
// log and signs out.
func TestNewUserSendsTheFirstLog(t *testing.T) {
	for _, d := range displays {
		t.Run(d.name, func(t *testing.T) {
			b := open(t, d)
			name := "walk-" + d.name
			b.visit("/")
			b.await("Sign in")
			b.screenshot("signin")
			b.check("sign-in")
			b.fill("#email", b.site.email)
			b.fill("#password", "not the password")
			b.click("form[action='/sign-in'] button", "E-mail address or password is wrong.")
			b.expectConsoleError("401")
			b.fill("#password", b.site.password)
			b.click("form[action='/sign-in'] button", "Projects")

			b.visit("/new-project")
			b.fill("#name", "Not A Name")
			b.until("the rules are checked while typing", `document.querySelectorAll(".rules .wrong").length === 1`)
			b.fill("#name", name)
			b.screenshot("new-project")
			b.check("new project")
			b.click("form[action='/projects'] button", "Send your first log")
			b.await("Waiting for the first log")
			b.navigate("create a token", chromedp.Submit(chromedp.CSS("#new-token")))
			b.await("The token is filled in")
			b.screenshot("onboarding")
			b.check("first log")
			token := b.tokenIn("#code-s1-curl")
			if status := b.site.post(t, "/v1/logs/"+name, token, `{"data":"hello"}`); status != http.StatusAccepted {
				t.Fatalf("ingest answered %d to the token on the page, want 202", status)
			}
			b.await("The first log has arrived")
			b.visit("/projects/" + name + "/settings/tokens")
			b.await("first log")
			b.signOut()
		})
	}
}

// tokenIn returns the token in an example that the page shows.
func (b *tab) tokenIn(selector string) string {
	b.t.Helper()
	return b.value(fmt.Sprintf(`document.querySelector(%q).textContent.match(/lgb_[0-9A-Za-z]+/)[0]`, selector))
}

func (b *tab) signOut() {
	b.t.Helper()
	b.visit("/account")
	b.click("main form[action='/sign-out'] button", "You are signed out.")
	b.visit("/projects")
	b.await("Sign in")
}

// TestTokenIsShownOnceAndRevokedByItsName creates a token, reloads the page and
// revokes the token in the dialog.
func TestTokenIsShownOnceAndRevokedByItsName(t *testing.T) {
	for _, d := range displays {
		t.Run(d.name, func(t *testing.T) {
			b := open(t, d)
			b.signIn(b.site.email, b.site.password)
			label := "shop web " + d.name
			b.visit("/projects/demo/settings/tokens")
			b.fill("#name", label)
			b.click(".make button", "Copy it now: it is not shown again.")
			token := b.value(`document.querySelector("#secret").value`)
			b.screenshot("settings-tokens")
			b.check("tokens")
			b.do("press Done before the token was used", chromedp.Click(chromedp.CSS("[data-done]")))
			if status := b.site.post(t, "/v1/logs/demo", token, `{"data":"hello"}`); status != http.StatusAccepted {
				t.Fatalf("ingest answered %d to the new token, want 202", status)
			}
			b.await("Copy it now: it is not shown again.")
			b.navigate("reload", chromedp.Reload())
			b.await(label)
			if strings.Contains(b.visibleText(), token) {
				t.Error("the token is shown a second time")
			}
			b.do("open the dialog", chromedp.Click(chromedp.CSS(fmt.Sprintf(`[data-dialog][data-name=%q]`, label))), chromedp.WaitVisible(chromedp.CSS("dialog[open]")))
			b.check("revoke dialog")
			if disabled := b.value(`String(document.querySelector("[data-confirm]").disabled)`); disabled != "true" {
				t.Error("the token can be revoked without its name")
			}
			b.do("type the name", chromedp.SendKeys(chromedp.CSS("#confirm-name"), label))
			b.screenshot("settings-revoke")
			b.click("dialog[open] [data-confirm]", "The token is revoked.")
		})
	}
}

func TestQuotasAndRetentionAreChanged(t *testing.T) {
	for _, d := range displays {
		t.Run(d.name, func(t *testing.T) {
			b := open(t, d)
			b.signIn(b.site.email, b.site.password)
			b.visit("/projects/demo/settings/quotas")
			b.await("Last 48 hours")
			b.fill("#daily", "a lot")
			b.navigate("save", chromedp.Submit(chromedp.CSS("#daily")))
			b.await("Must be a whole number")
			b.expectConsoleError("400")
			b.fill("#daily", "100000")
			b.fill("#days", "30")
			b.navigate("save", chromedp.Submit(chromedp.CSS("#daily")))
			b.await("The changes are saved.")
			b.await("Records today")
			b.fill("#days", "14")
			b.navigate("save", chromedp.Submit(chromedp.CSS("#days")))
			b.await("deleted after 14 days instead of 30")
			b.expectConsoleError("409")
			b.check("quotas")
			b.visit("/projects/demo/settings")
			b.check("general")
		})
	}
}

// TestAdministratorManagesUsersAndKeys adds a user and an API key, finds both in
// the audit log, and checks what the user sees.
func TestAdministratorManagesUsersAndKeys(t *testing.T) {
	for _, d := range displays {
		t.Run(d.name, func(t *testing.T) {
			b := open(t, d)
			b.signIn(b.site.email, b.site.password)
			email := d.name + "@example.org"
			b.visit("/installation/users")
			b.fill("#email", email)
			b.fill("#password", "a password for the member")
			b.fill("#projects", "demo")
			b.click("form[action='/installation/users'] button", "The user can sign in now.")
			b.screenshot("users")
			b.check("users")
			b.visit("/installation/keys")
			b.fill("#name", "nightly report "+d.name)
			b.click(".card-foot button", "Copy it now: it is not shown again.")
			b.check("API keys")
			b.visit("/installation/audit")
			b.await("created an API key")
			b.await("added a user")
			b.check("audit log")

			member := open(t, d)
			member.signIn(email, "a password for the member")
			member.await("demo")
			if strings.Contains(member.visibleText(), "New project") {
				t.Error("the page offers a member to create projects")
			}
			member.visit("/projects/demo/settings/tokens")
			member.await("A token lets a program write")
			member.visit("/projects/walk-light/settings")
			member.await("There is no such page")
			member.expectConsoleError("404")

			b.visit("/installation/users")
			b.do("open the dialog", chromedp.Click(chromedp.CSS(fmt.Sprintf(`[data-dialog][data-name=%q]`, email))), chromedp.WaitVisible(chromedp.CSS("dialog[open]")), chromedp.SendKeys(chromedp.CSS("#confirm-name"), email))
			b.click("dialog[open] [data-confirm]", "The user is deleted")
			member.visit("/projects")
			member.await("Sign in")
		})
	}
}

func TestProjectsPageShowsVolumeQuotaAndLosses(t *testing.T) {
	site := start(t)
	site.createUsedProjects(t)
	b := open(t, displays[0])
	b.signIn(site.email, site.password)
	for _, d := range displays {
		b.emulate(d)
		b.visit("/projects")
		for _, text := range []string{"Records stored", "3,412 daily quota", "silent", "Waiting for the first record.", "84 %"} {
			b.await(text)
		}
		b.screenshot("projects")
		b.check("projects")
		b.visit("/projects/shop-checkout/settings/quotas")
		b.await("3,412 records lost in the last 48 hours")
		b.screenshot("settings-quotas-lost")
		b.check("quotas with losses")
	}
}

// TestThemeIsSwitchedAtOnceAndKept presses the theme switch at the top of the
// page.
func TestThemeIsSwitchedAtOnceAndKept(t *testing.T) {
	b := open(t, displays[0])
	b.signIn(b.site.email, b.site.password)
	theme := func() string { return b.value(`document.documentElement.dataset.theme || "none"`) }
	if chosen := theme(); chosen != "none" {
		t.Errorf("the theme is %q before the user chose one", chosen)
	}
	for _, want := range []string{"dark", "light"} {
		b.do("press the switch", chromedp.Click(chromedp.CSS("[data-theme-switch] button")))
		b.until("the theme is "+want, fmt.Sprintf(`document.documentElement.dataset.theme === %q`, want))
		b.until("the theme is kept", fmt.Sprintf(`document.cookie.includes("logboom-theme=%s")`, want)) // the browser stores a script's cookie with a short delay
		b.visit("/projects")
		if chosen := theme(); chosen != want {
			t.Errorf("the theme of the next page is %q, want %s", chosen, want)
		}
	}
}

func TestPagesWorkWithTheKeyboard(t *testing.T) {
	b := open(t, displays[0])
	b.signIn(b.site.email, b.site.password)
	b.visit("/projects/demo/settings")
	b.navigate("press g p", keys("g", "p"))
	b.await("Records stored")
	b.do("press /", keys("/"))
	b.until("the focus is on the filter", `document.activeElement.name === "filter"`)
	b.do("type letters that are shortcuts outside a field", keys("g", "p"))
	b.until("the field contains them", `document.activeElement.value?.endsWith("gp")`)
	b.visit("/projects/demo/settings")
	b.do("press ?", keys("?"), chromedp.WaitVisible(chromedp.CSS("#all-keys")))
	b.await("Switch project")
	b.check("all keys")
	b.do("press Escape", keys(kb.Escape), chromedp.WaitNotVisible(chromedp.CSS("#all-keys")))
	b.do("press p", keys("p"))
	b.until("the list of projects is open", `document.querySelector("#switcher a") !== null`)
	b.checkPart("project switcher", "#switcher")
	b.visit("/account")
	b.check("account")
	b.do("turn single-key shortcuts off", chromedp.Click(chromedp.CSS("input[name=keys]")))
	b.click("main .card-foot button", "Your choices are stored")
	b.do("watch the keys", script(`addEventListener("keydown", (event) => { document.body.dataset.handled = event.defaultPrevented })`))
	b.do("press g p", keys("g", "p"))
	if handled := b.value(`document.body.dataset.handled`); handled != "false" {
		t.Errorf("the page handled a shortcut although shortcuts are off: handled is %s", handled)
	}
}

func TestProjectIsDeletedByItsNameOnly(t *testing.T) {
	b := open(t, displays[0])
	b.signIn(b.site.email, b.site.password)
	b.visit("/new-project")
	b.fill("#name", "short-lived")
	b.click("form[action='/projects'] button", "Send your first log")
	b.visit("/projects/short-lived/settings/delete")
	b.check("delete")
	b.fill("#confirm-name", "something else")
	b.click(".btn.danger", "Type short-lived exactly")
	b.expectConsoleError("400")
	b.fill("#confirm-name", "short-lived")
	b.click(".btn.danger", "The project is deleted.")
}

// TestAlertAddressIsNeverShownAgain saves an address, checks that the page does
// not contain it, and turns alerts off.
func TestAlertAddressIsNeverShownAgain(t *testing.T) {
	for _, d := range displays {
		t.Run(d.name, func(t *testing.T) {
			b := open(t, d)
			b.signIn(b.site.email, b.site.password)
			b.visit("/projects/demo/settings/alerts")
			b.fill("#address", "https://127.0.0.1/hooks/a-secret-of-the-room-4f1c") // webhooks may not be sent to this host
			b.do("choose the severity", chromedp.SetValue(chromedp.CSS("#min-severity"), "error"))
			b.click(".btn.primary", "The alerts are saved.")
			b.do("send a test message", chromedp.Click(chromedp.CSS("[data-test-send]")))
			b.await("The message was not sent")
			if strings.Contains(b.value(`document.documentElement.outerHTML`), "a-secret-of") {
				t.Error("the page contains the address")
			}
			b.screenshot("settings-alerts")
			b.check("alerts")
			b.click("button[formaction]", "Alerts are off")
		})
	}
}
