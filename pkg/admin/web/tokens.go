package web

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/logboom/logboom/pkg/project"
)

// unusedAfter is when a token that nobody used is pointed out.
const unusedAfter = 30 * 24 * time.Hour

// tokenRow is one token of the list.
type tokenRow struct {
	project.Token
	Path   string
	Seen   string
	Unused bool
	New    bool
}

// madeSecret is a token or key that was just made, shown this once.
type madeSecret struct {
	Name, Value string
}

// tokensView is a project's tokens.
type tokensView struct {
	Tokens []tokenRow
	Made   *madeSecret
	Name   string // of the form
	Fault  string
}

func (p *Pages) tokensPage(r *request) error { return r.showTokens(http.StatusOK, tokensView{}, "") }

// showTokens shows the list; newest is the ID of a token that was just made.
func (r *request) showTokens(status int, v tokensView, newest string) error {
	list, err := r.pages.deps.Directory.Tokens(r.Request().Context(), r.project.Name)
	if err != nil {
		return err
	}
	now := r.pages.now()
	for _, t := range list {
		row := tokenRow{Token: t, Path: r.projectPath("/settings/tokens/" + t.ID + "/revoke"), Seen: since(t.LastUsed, now), New: t.ID == newest}
		row.Unused = now.Sub(t.Created) > unusedAfter && now.Sub(t.LastUsed) > unusedAfter
		v.Tokens = append([]tokenRow{row}, v.Tokens...) // the newest first
	}
	return r.renderStatus(status, "tokens", view{Title: "Tokens · " + r.project.Name, Tab: "settings", Side: "tokens", Secret: v.Made != nil, Body: v})
}

// createToken makes a token. The answer is the page that shows it: its address
// cannot be asked again.
func (p *Pages) createToken(r *request) error {
	form, err := r.readForm()
	if err != nil {
		return err
	}
	ctx, cancel := r.changing()
	defer cancel()
	made, value, err := p.makeToken(ctx, r, form.Get("name"))
	if _, fault, ok := faultOf(err); ok {
		return r.showTokens(http.StatusBadRequest, tokensView{Name: form.Get("name"), Fault: fault}, "")
	}
	if err != nil {
		return err
	}
	return r.showTokens(http.StatusOK, tokensView{Made: &madeSecret{made.Name, value.Reveal()}}, made.ID)
}

func (p *Pages) makeToken(ctx context.Context, r *request, name string) (project.Token, project.Secret, error) {
	made, value, err := p.deps.Directory.CreateToken(ctx, r.project.Name, name)
	if err == nil {
		r.changed(ctx, "token.created", made.ID)
	}
	return made, value, err
}

// tokenOf finds the token that a page is about; errGone where there is none.
func (r *request) tokenOf(id string) (project.Token, error) {
	list, err := r.pages.deps.Directory.Tokens(r.Request().Context(), r.project.Name)
	if err != nil {
		return project.Token{}, err
	}
	for _, t := range list {
		if t.ID == id {
			return t, nil
		}
	}
	return project.Token{}, errGone
}

func (p *Pages) revokePage(r *request) error {
	found, err := r.tokenOf(r.Param("token"))
	if err != nil {
		return err
	}
	return r.askToRevoke(http.StatusOK, found, "")
}

func (r *request) askToRevoke(status int, t project.Token, fault string) error {
	used := "It was last used: " + since(t.LastUsed, r.pages.now()) + "."
	return r.renderStatus(status, "confirm", view{Title: "Revoke a token", Tab: "settings", Side: "tokens", Body: confirmation{
		Title: "Revoke “" + t.Name + "”?",
		Texts: []string{used, "Whoever sends with it is refused within 2 seconds, and what they do not keep is lost. This cannot be undone."},
		Name:  t.Name, Action: "Revoke token", Keep: r.projectPath("/settings/tokens"), Fault: fault,
	}})
}

func (p *Pages) revokeToken(r *request) error {
	form, err := r.readForm()
	if err != nil {
		return err
	}
	found, err := r.tokenOf(r.Param("token"))
	if err != nil {
		return err
	}
	if !isConfirmed(form.Get("confirm"), found.Name) {
		return r.askToRevoke(http.StatusBadRequest, found, notTyped(found.Name))
	}
	ctx, cancel := r.changing()
	defer cancel()
	err = p.deps.Directory.DeleteToken(ctx, r.project.Name, found.ID)
	if errors.Is(err, project.ErrNotFound) {
		return errGone
	}
	if err != nil {
		return err
	}
	r.changed(ctx, "token.deleted", found.ID)
	return r.goTo(r.projectPath("/settings/tokens?done=token-revoked"))
}
