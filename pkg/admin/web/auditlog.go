package web

import (
	"strconv"
	"strings"
)

const changesPerPage = 50

// auditView is a page of what was changed.
type auditView struct {
	Changes []Change
	Next    uint64
	Later   bool // the newest are on another page
}

func (p *Pages) auditPage(r *request) error {
	before := uint64(0)
	if text := r.QueryParam("before"); text != "" {
		var err error
		if before, err = strconv.ParseUint(text, 10, 63); err != nil {
			return errGone
		}
	}
	list, next, err := p.deps.Service.Changes(r.Request().Context(), before, changesPerPage)
	if err != nil {
		return err
	}
	return r.render("audit", view{Title: "Audit log", Tab: "installation", Side: "audit", Body: auditView{list, next, before != 0}})
}

// Words says in words what was done, for people.
func (c Change) Words() string {
	if words, ok := actionWords[c.Action]; ok {
		return words
	}
	return strings.NewReplacer(".", " ", "_", " ").Replace(c.Action)
}

// actionWords are the actions in words; others are shown by their own names.
var actionWords = map[string]string{
	"project.created":      "made the project",
	"project.deleted":      "deleted the project",
	"token.created":        "made a token",
	"token.deleted":        "revoked a token",
	"settings.changed":     "changed settings",
	"alerts.changed":       "changed alerts",
	"alerts.tested":        "sent a test message",
	"dead_letter.replayed": "replayed a dead letter",
	"user.created":         "added a user",
	"user.changed":         "changed a user's role or projects",
	"user.deleted":         "deleted a user",
	"api_key.created":      "made an API key",
	"api_key.deleted":      "revoked an API key",
	"person.signed_in":     "signed in",

	"user.password_set":       "gave a user a new password",
	"person.password_changed": "changed their password",
}
