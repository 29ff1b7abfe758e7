package web

import (
	"net/http"
	"slices"

	"github.com/logboom/logboom/pkg/admin"
	"github.com/logboom/logboom/pkg/people"
)

// keyRow is one API key of the list.
type keyRow struct {
	admin.Key
	Path string
	New  bool
}

// keysView is all API keys.
type keysView struct {
	Keys    []keyRow
	Created *newSecret
	Name    string // of the form, like the fields below
	Role    people.Role
	Names   string // of projects
	Field   string
	Fault   string
}

func (p *Pages) keysPage(r *request) error {
	return r.showKeys(http.StatusOK, keysView{Role: people.RoleMember}, "")
}

// showKeys shows the list, the newest first. created is the ID of a key that
// was just created.
func (r *request) showKeys(status int, v keysView, created string) error {
	list, err := r.pages.service.Keys(r.Request().Context())
	if err != nil {
		return err
	}
	for _, k := range slices.Backward(list) {
		v.Keys = append(v.Keys, keyRow{k, keysPath + "/" + k.ID + "/revoke", k.ID == created})
	}
	return r.renderStatus(status, "keys", view{Title: "API keys", Tab: "installation", Side: "keys", Secret: v.Created != nil, Body: v})
}

// createKey creates an API key. The answer is the only page that shows it.
func (p *Pages) createKey(r *request) error {
	v := keysView{Name: r.form.Get("name"), Role: people.Role(r.form.Get("role")), Names: r.form.Get("projects")}
	created, value, err := p.service.CreateKey(r.Request().Context(), r.caller, v.Name, v.Role, splitNames(v.Names))
	if field, fault, ok := faultOf(err); ok {
		v.Field, v.Fault = field, fault
		return r.showKeys(http.StatusBadRequest, v, "")
	}
	if err != nil {
		return err
	}
	return r.showKeys(http.StatusOK, keysView{Role: people.RoleMember, Created: &newSecret{created.Name, value.Reveal()}}, created.ID)
}

func (p *Pages) revokeKey(r *request) error {
	list, err := p.service.Keys(r.Request().Context())
	if err != nil {
		return err
	}
	at := slices.IndexFunc(list, func(k admin.Key) bool { return k.ID == r.Param("key") })
	if at < 0 {
		return admin.ErrNoKey
	}
	if ok, err := r.confirm(view{Title: "Revoke an API key", Tab: "installation", Side: "keys"}, confirmation{
		Title: "Revoke “" + list[at].Name + "”?",
		Texts: []string{"Scripts that use it are refused at once. This cannot be undone."},
		Name:  list[at].Name, Action: "Revoke key", Keep: keysPath,
	}); !ok {
		return err
	}
	if err := p.service.DeleteKey(r.Request().Context(), r.caller, list[at].ID); err != nil {
		return err
	}
	return r.goTo(keysPath + "?done=key-revoked")
}
