package web

import (
	"net/http"
	"slices"
	"time"

	"github.com/logboom/logboom/pkg/admin"
	"github.com/logboom/logboom/pkg/token"
)

// unusedAfter is when the page marks a token as unused.
const unusedAfter = 30 * 24 * time.Hour

// tokenRow is one token of the list.
type tokenRow struct {
	token.Token
	Path   string
	Seen   string
	Unused bool
	New    bool
}

// newSecret is a token or API key that was just created, shown this once.
type newSecret struct {
	Name, Value string
}

// tokensView is a project's tokens.
type tokensView struct {
	Tokens  []tokenRow
	Created *newSecret
	Name    string // of the form
	Fault   string
}

func (p *Pages) tokensPage(r *request) error { return r.showTokens(http.StatusOK, tokensView{}, "") }

// showTokens shows the list, the newest first. created is the ID of a token
// that was just created.
func (r *request) showTokens(status int, v tokensView, created string) error {
	list, err := r.pages.service.Tokens(r.Request().Context(), r.project)
	if err != nil {
		return err
	}
	now := r.pages.now()
	for _, t := range slices.Backward(list) {
		row := tokenRow{Token: t, Path: r.projectPath("/settings/tokens/" + t.ID + "/revoke"), Seen: since(t.LastUsed, now), New: t.ID == created}
		row.Unused = now.Sub(t.Created) > unusedAfter && now.Sub(t.LastUsed) > unusedAfter
		v.Tokens = append(v.Tokens, row)
	}
	return r.renderStatus(status, "tokens", view{Title: "Tokens · " + r.project.Name, Tab: "settings", Side: "tokens", Secret: v.Created != nil, Body: v})
}

// createToken creates a token. The answer is the page that shows it, since no
// address may show it again.
func (p *Pages) createToken(r *request) error {
	created, value, err := p.service.CreateToken(r.Request().Context(), r.caller, r.project, r.form.Get("name"))
	if _, fault, ok := faultOf(err); ok {
		return r.showTokens(http.StatusBadRequest, tokensView{Name: r.form.Get("name"), Fault: fault}, "")
	}
	if err != nil {
		return err
	}
	return r.showTokens(http.StatusOK, tokensView{Created: &newSecret{created.Name, value.Reveal()}}, created.ID)
}

func (p *Pages) revokeToken(r *request) error {
	list, err := p.service.Tokens(r.Request().Context(), r.project)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(list, func(t token.Token) bool { return t.ID == r.Param("token") })
	if at < 0 {
		return admin.ErrNoToken
	}
	if ok, err := r.confirm(view{Title: "Revoke a token", Tab: "settings", Side: "tokens"}, confirmation{
		Title: "Revoke “" + list[at].Name + "”?",
		Texts: []string{
			"It was last used: " + since(list[at].LastUsed, p.now()) + ".",
			"Clients that use it are refused within 2 seconds. Records that they do not keep are lost. This cannot be undone.",
		},
		Name: list[at].Name, Action: "Revoke token", Keep: r.projectPath("/settings/tokens"),
	}); !ok {
		return err
	}
	if err := p.service.DeleteToken(r.Request().Context(), r.caller, r.project, list[at].ID); err != nil {
		return err
	}
	return r.goTo(r.projectPath("/settings/tokens?done=token-revoked"))
}
