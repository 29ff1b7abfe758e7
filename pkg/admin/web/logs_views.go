package web

import (
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/logboom/logboom/pkg/admin"
)

// savedView is a saved question as the menu shows it.
type savedView struct {
	ID, Name, Path, Query string
}

const maxViewName = 60 // characters

// savedOf are the person's questions of the project. Without them the page is
// shown all the same.
func (p *Pages) savedOf(r *request) []savedView {
	list, err := p.service.Views(r.Request().Context(), r.caller, r.project)
	if err != nil {
		p.logger.Warn("saved questions not shown", "project", r.project.Name, "err", err)
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
	state, fault := readLogState(r.form, p.now().UTC())
	state.Live, state.Line, state.Cursor = false, "", ""
	name := strings.TrimSpace(r.form.Get("name"))
	if name == "" {
		name = state.Query
	}
	if fault != nil && fault.Position >= 0 || name == "" || !utf8.ValidString(name) {
		return r.goTo(state.address(r.projectPath("/logs")))
	}
	if characters := []rune(printable(name)); len(characters) > maxViewName {
		name = string(characters[:maxViewName])
	}
	err := p.service.SaveView(r.Request().Context(), r.caller, r.project, admin.View{Name: printable(name), State: state.values().Encode(), Saved: p.now().UTC()})
	if err != nil {
		return err
	}
	return r.goTo(state.address(r.projectPath("/logs")))
}

// deleteView forgets one of the person's questions.
func (p *Pages) deleteView(r *request) error {
	state, _ := readLogState(r.form, p.now().UTC())
	if err := p.service.DeleteView(r.Request().Context(), r.caller, r.project, r.form.Get("id")); err != nil {
		return err
	}
	return r.goTo(state.address(r.projectPath("/logs")))
}
