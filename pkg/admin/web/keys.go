package web

import (
	"net/http"
	"slices"

	"github.com/logboom/logboom/pkg/admin"
	"github.com/logboom/logboom/pkg/project"
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
	Role    project.Role
	Names   string // of projects
	Field   string
	Fault   string
}

func (p *Pages) keysPage(r *request) error {
	return r.showKeys(http.StatusOK, keysView{Role: project.RoleMember}, "")
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
	form, err := r.readForm()
	if err != nil {
		return err
	}
	v := keysView{Name: form.Get("name"), Role: project.Role(form.Get("role")), Names: form.Get("projects")}
	created, value, err := p.service.CreateKey(r.Request().Context(), r.caller, v.Name, v.Role, splitNames(v.Names))
	if field, fault, ok := faultOf(err); ok {
		v.Field, v.Fault = field, fault
		return r.showKeys(http.StatusBadRequest, v, "")
	}
	if err != nil {
		return err
	}
	return r.showKeys(http.StatusOK, keysView{Role: project.RoleMember, Created: &newSecret{created.Name, value.Reveal()}}, created.ID)
}

// findKey returns the API key that a page is about.
func (r *request) findKey() (admin.Key, error) {
	list, err := r.pages.service.Keys(r.Request().Context())
	if err != nil {
		return admin.Key{}, err
	}
	at := slices.IndexFunc(list, func(k admin.Key) bool { return k.ID == r.Param("key") })
	if at < 0 {
		return admin.Key{}, admin.ErrNoKey
	}
	return list[at], nil
}

func (p *Pages) revokeKeyPage(r *request) error {
	found, err := r.findKey()
	if err != nil {
		return err
	}
	return r.confirmKeyRevocation(http.StatusOK, found, "")
}

func (r *request) confirmKeyRevocation(status int, k admin.Key, fault string) error {
	return r.renderStatus(status, "confirm", view{Title: "Revoke an API key", Tab: "installation", Side: "keys", Body: confirmation{
		Title: "Revoke “" + k.Name + "”?",
		Texts: []string{"Scripts that use it are refused at once. This cannot be undone."},
		Name:  k.Name, Action: "Revoke key", Keep: keysPath, Fault: fault,
	}})
}

func (p *Pages) revokeKey(r *request) error {
	form, err := r.readForm()
	if err != nil {
		return err
	}
	found, err := r.findKey()
	if err != nil {
		return err
	}
	if !isConfirmed(form.Get("confirm"), found.Name) {
		return r.confirmKeyRevocation(http.StatusBadRequest, found, notTyped(found.Name))
	}
	if err := p.service.DeleteKey(r.Request().Context(), r.caller, found.ID); err != nil {
		return err
	}
	return r.goTo(keysPath + "?done=key-revoked")
}
