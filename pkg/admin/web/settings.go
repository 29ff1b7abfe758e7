package web

import (
	"net/http"
	"strings"

	"github.com/logboom/logboom/pkg/project"
)

// settingsView is the general settings of a project.
type settingsView struct {
	IngestURL string
	StderrAs  string
	Fault     string
}

func (p *Pages) settingsPage(r *request) error {
	return r.showSettings(http.StatusOK, settingsView{StderrAs: r.project.Settings.StderrAs})
}

func (r *request) showSettings(status int, v settingsView) error {
	v.IngestURL = r.ingestURL()
	return r.renderStatus(status, "settings", view{Title: "General · " + r.project.Name, Tab: "settings", Side: "general", Body: v})
}

func (p *Pages) changeSettings(r *request) error {
	wanted := strings.TrimSpace(r.form.Get("stderr_as"))
	_, err := p.service.ChangeSettings(r.Request().Context(), r.caller, r.project, func(s *project.Settings) { s.StderrAs = wanted })
	if _, fault, ok := faultOf(err); ok {
		return r.showSettings(http.StatusBadRequest, settingsView{StderrAs: wanted, Fault: fault})
	}
	if err != nil {
		return err
	}
	return r.goTo(r.projectPath("/settings?done=settings-saved"))
}

func (p *Pages) deleteProject(r *request) error {
	if ok, err := r.confirm(view{Title: "Delete " + r.project.Name, Tab: "settings", Side: "delete"}, confirmation{
		Title: "Delete the project " + r.project.Name + "?",
		Texts: []string{
			"Its tokens are refused within 2 seconds. Records that clients do not keep are lost.",
			"Its logs, events, alerts and settings are deleted. This cannot be undone.",
		},
		Name: r.project.Name, Action: "Delete project and data", Keep: r.projectPath("/settings"),
	}); !ok {
		return err
	}
	if err := p.service.DeleteProject(r.Request().Context(), r.caller, r.project); err != nil {
		return err
	}
	return r.goTo(projectsPath + "?done=project-deleted")
}
