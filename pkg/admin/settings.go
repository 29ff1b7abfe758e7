package admin

import (
	"net/http"

	"github.com/logboom/logboom/pkg/project"
)

func (s *Server) settings(r *request) error { return r.JSON(http.StatusOK, r.project.Settings) }

// changeSettings sets the settings that are given; the others keep their value,
// whatever somebody else changes at the same time.
func (s *Server) changeSettings(r *request) error {
	sent, err := readBody[project.Settings](r)
	if err != nil {
		return err
	}
	if err := sent.into(&project.Settings{}); err != nil {
		return err
	}
	ctx, cancel := r.changing()
	defer cancel()
	changed, err := s.deps.Directory.ChangeSettings(ctx, r.project.Name, func(settings *project.Settings) {
		_ = sent.into(settings) // was tried above
	})
	if err != nil {
		return err
	}
	s.restoration.changed(ctx, changed)
	s.changed(r, SettingsChanged, changed, "")
	return r.JSON(http.StatusOK, changed.Settings)
}
