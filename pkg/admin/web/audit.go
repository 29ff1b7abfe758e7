package web

import (
	"strconv"
	"strings"

	"github.com/logboom/logboom/pkg/admin"
)

const changesPerPage = 50

// auditView is a page of the audit trail.
type auditView struct {
	Changes []changeRow
	Next    uint64
	Later   bool // the newest changes are on another page
}

// changeRow is one change.
type changeRow struct {
	admin.Change
	Words string // what was done
}

func (p *Pages) auditPage(r *request) error {
	before := uint64(0)
	if text := r.QueryParam("before"); text != "" {
		var err error
		if before, err = strconv.ParseUint(text, 10, 63); err != nil {
			return errGone
		}
	}
	list, next, err := p.service.Changes(r.Request().Context(), before, changesPerPage)
	if err != nil {
		return err
	}
	v := auditView{Next: next, Later: before != 0}
	for _, c := range list {
		v.Changes = append(v.Changes, changeRow{c, actionWords(c.Action)})
	}
	return r.render("audit", view{Title: "Audit log", Tab: "installation", Side: "audit", Body: v})
}

// actionWords says what was done. An unknown action, of another version, is
// shown under its own name.
func actionWords(action admin.Action) string {
	words := map[admin.Action]string{
		admin.ProjectCreated:  "created the project",
		admin.ProjectDeleted:  "deleted the project",
		admin.TokenCreated:    "created a token",
		admin.TokenDeleted:    "revoked a token",
		admin.SettingsChanged: "changed settings",
		admin.AlertsChanged:   "changed alerts",
		admin.AlertsTested:    "sent a test message",
		admin.LetterReplayed:  "replayed a dead letter",
		admin.UserCreated:     "added a user",
		admin.UserChanged:     "changed a user's role or projects",
		admin.UserPasswordSet: "set a user's password",
		admin.UserDeleted:     "deleted a user",
		admin.KeyCreated:      "created an API key",
		admin.KeyDeleted:      "revoked an API key",
		admin.PersonSignedIn:  "signed in",
		admin.PasswordChanged: "changed their password",
	}[action]
	if words == "" {
		return strings.NewReplacer(".", " ", "_", " ").Replace(string(action))
	}
	return words
}
