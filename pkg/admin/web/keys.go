package web

import (
	"errors"
	"net/http"

	"github.com/logboom/logboom/pkg/project"
)

// keyRow is one API key of the list.
type keyRow struct {
	project.APIKey
	Limited []string // names of the projects that it is limited to
	Path    string
	New     bool
}

// keysView is all API keys.
type keysView struct {
	Keys  []keyRow
	Made  *madeSecret
	Name  string // of the form, as what follows
	Role  project.Role
	Names string
	Field string
	Fault string
}

func (p *Pages) keysPage(r *request) error {
	return r.showKeys(http.StatusOK, keysView{Role: project.RoleMember}, "")
}

func (r *request) showKeys(status int, v keysView, newest string) error {
	list, err := r.pages.deps.Directory.APIKeys(r.Request().Context())
	if err != nil {
		return err
	}
	for _, k := range list {
		v.Keys = append([]keyRow{{k, namesOf(k.Projects), keysPath + "/" + k.ID + "/revoke", k.ID == newest}}, v.Keys...) // the newest first
	}
	return r.renderStatus(status, "keys", view{Title: "API keys", Tab: "installation", Side: "keys", Secret: v.Made != nil, Body: v})
}

// createKey makes an API key, shown in this answer only.
func (p *Pages) createKey(r *request) error {
	form, err := r.readForm()
	if err != nil {
		return err
	}
	v := keysView{Name: form.Get("name"), Role: project.Role(form.Get("role")), Names: form.Get("projects")}
	ctx, cancel := r.changing()
	defer cancel()
	made, value, err := p.deps.Directory.CreateAPIKey(ctx, v.Name, v.Role, splitNames(v.Names)...)
	if field, fault, ok := faultOf(err); ok {
		v.Field, v.Fault = field, fault
		return r.showKeys(http.StatusBadRequest, v, "")
	}
	if err != nil {
		return err
	}
	r.changed(ctx, "api_key.created", made.ID)
	return r.showKeys(http.StatusOK, keysView{Role: project.RoleMember, Made: &madeSecret{made.Name, value.Reveal()}}, made.ID)
}

func (r *request) keyOf(id string) (project.APIKey, error) {
	list, err := r.pages.deps.Directory.APIKeys(r.Request().Context())
	if err != nil {
		return project.APIKey{}, err
	}
	for _, k := range list {
		if k.ID == id {
			return k, nil
		}
	}
	return project.APIKey{}, errGone
}

func (p *Pages) revokeKeyPage(r *request) error {
	found, err := r.keyOf(r.Param("key"))
	if err != nil {
		return err
	}
	return r.askToRevokeKey(http.StatusOK, found, "")
}

func (r *request) askToRevokeKey(status int, k project.APIKey, fault string) error {
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
	found, err := r.keyOf(r.Param("key"))
	if err != nil {
		return err
	}
	if !isConfirmed(form.Get("confirm"), found.Name) {
		return r.askToRevokeKey(http.StatusBadRequest, found, notTyped(found.Name))
	}
	ctx, cancel := r.changing()
	defer cancel()
	err = p.deps.Directory.DeleteAPIKey(ctx, found.ID)
	if errors.Is(err, project.ErrNotFound) {
		return errGone
	}
	if err != nil {
		return err
	}
	r.changed(ctx, "api_key.deleted", found.ID)
	return r.goTo(keysPath + "?done=key-revoked")
}
