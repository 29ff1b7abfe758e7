package web

import (
	"context"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/logboom/logboom/pkg/admin/saved"
)

// Views keep what people saved; saved.Views do, for each person and project. They bound what
// they keep: project.ErrFull says that there is room for no more.
type Views interface {
	List(ctx context.Context, project, person string) ([]saved.View, error)
	Save(ctx context.Context, project, person string, v saved.View) error
	Delete(ctx context.Context, project, person, id string) error
}

// savedView is a saved question as the menu shows it.
type savedView struct {
	ID, Name, Path, Query string
}

const maxViewName = 60 // characters

// savedOf are the person's questions of the project. Without them the page is
// shown all the same.
func (p *Pages) savedOf(r *request) []savedView {
	if p.deps.Views == nil {
		return nil
	}
	list, err := p.deps.Views.List(r.Request().Context(), r.project.ID, r.person.Email)
	if err != nil {
		p.deps.Logger.Warn("saved questions not shown", "project", r.project.Name, "err", err)
		return nil
	}
	shown := make([]savedView, len(list))
	for i, v := range list {
		state, err := url.ParseQuery(v.State)
		if err != nil {
			state = url.Values{} // it was written by another version
		}
		shown[i] = savedView{v.ID, v.Name, r.projectPath("/logs") + "?" + state.Encode(), state.Get("q")}
	}
	return shown
}

// saveView keeps the state of the form under a name.
func (p *Pages) saveView(r *request) error {
	if p.deps.Views == nil {
		return errGone
	}
	form, err := r.readForm()
	if err != nil {
		return err
	}
	state, fault := readLogState(form, p.now().UTC())
	state.Live, state.Line, state.Cursor = false, "", ""
	name := strings.TrimSpace(form.Get("name"))
	if name == "" {
		name = state.Query
	}
	if fault != nil && fault.Position >= 0 || name == "" || !utf8.ValidString(name) {
		return r.goTo(state.address(r.projectPath("/logs")))
	}
	if characters := []rune(printable(name)); len(characters) > maxViewName {
		name = string(characters[:maxViewName])
	}
	ctx, cancel := r.changing()
	defer cancel()
	err = p.deps.Views.Save(ctx, r.project.ID, r.person.Email, saved.View{Name: printable(name), State: state.values().Encode(), Saved: p.now().UTC()})
	if err != nil {
		return err
	}
	return r.goTo(state.address(r.projectPath("/logs")))
}

// deleteView forgets one of the person's questions.
func (p *Pages) deleteView(r *request) error {
	if p.deps.Views == nil {
		return errGone
	}
	form, err := r.readForm()
	if err != nil {
		return err
	}
	state, _ := readLogState(form, p.now().UTC())
	ctx, cancel := r.changing()
	defer cancel()
	if err := p.deps.Views.Delete(ctx, r.project.ID, r.person.Email, form.Get("id")); err != nil {
		return err
	}
	return r.goTo(state.address(r.projectPath("/logs")))
}
