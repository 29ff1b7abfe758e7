package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/logboom/logboom/pkg/project"
)

const (
	projectsPerPage   = 50
	maxParallelUsages = 4 // queries, so that one page does not fill ClickHouse's queue
	shownHours        = 24
)

// projectRow is one project of the list.
type projectRow struct {
	Name    string
	Path    string
	Created string
	State   string // ok, warn, error or idle
	Waiting bool   // a new project in which nothing was stored yet
	Known   bool   // the usage could be read
	Used    used
	Chart   bars
	Quota   *meter // the fullest; nil: it has none
	Losses  string
	Silent  string // for how long, if the project usually is not silent
	Seen    string
}

// projectsView is the list with its totals.
type projectsView struct {
	Rows    []projectRow
	Total   used
	Lossy   int    // projects with losses
	Filter  string // text that names must contain
	Next    string // name after which the next page begins, or ""
	Partial bool   // the list has a filter, or is not the first page
	Unknown bool   // some usage could not be read
}

// projectsPage lists the projects that the person may see.
func (p *Pages) projectsPage(r *request) error {
	filter, after := strings.TrimSpace(r.QueryParam("filter")), r.QueryParam("after")
	found, err := p.service.Projects(r.Request().Context(), r.caller, filter, after, projectsPerPage+1)
	if err != nil {
		return err
	}
	v := projectsView{Filter: filter, Partial: filter != "" || after != ""}
	if len(found) > projectsPerPage {
		found = found[:projectsPerPage]
		v.Next = found[projectsPerPage-1].Name
	}
	v.Rows = p.projectRows(r, found)
	for _, row := range v.Rows {
		v.Unknown = v.Unknown || !row.Known
		v.Total.Stored += row.Used.Stored
		v.Total.Events += row.Used.Events
		v.Total.Bytes += row.Used.Bytes
		v.Total.Dropped += row.Used.Dropped
		if row.Used.Dropped > 0 {
			v.Lossy++
		}
	}
	return r.render("projects", view{Title: "Projects", Tab: "projects", Body: v})
}

// projectRows reads the usage of the projects, a few at a time. A project whose
// usage cannot be read is listed without it.
func (p *Pages) projectRows(r *request, found []project.Project) []projectRow {
	ctx, cancel := r.querying()
	defer cancel()
	rows := make([]projectRow, len(found))
	var group errgroup.Group
	group.SetLimit(maxParallelUsages)
	for i, one := range found {
		group.Go(func() error {
			rows[i] = p.projectRow(ctx, one)
			return nil
		})
	}
	_ = group.Wait() // no function returns an error
	slices.SortStableFunc(rows, func(a, b projectRow) int { return rank(b.State) - rank(a.State) })
	return rows
}

// rank orders states: the higher, the worse.
func rank(state string) int { return slices.Index([]string{"idle", "ok", "warn", "error"}, state) }

func (p *Pages) projectRow(ctx context.Context, found project.Project) projectRow {
	row := projectRow{Name: found.Name, Path: projectsPath + "/" + url.PathEscape(found.Name), State: "idle"}
	quotas := found.Settings.Quotas(p.service.Defaults())
	now := p.now().UTC()
	row.Created = since(found.Created, now)
	u, err := p.readUsage(ctx, found, shownHours, quotas.MonthlyBytes > 0)
	if err != nil {
		p.logger.Warn("usage not shown", "project", found.Name, "err", err)
		return row
	}
	row.Known, row.Used, row.Chart = true, u, chart(u, 5, 2, 28)
	row.Waiting = u.Last.IsZero() && now.Sub(found.Created) < shownHours*time.Hour
	row.Seen = lastHour(u.Last, now)
	row.Losses, row.Silent = lossText(u.Reasons), silence(u, now)
	if list := meters(u, quotas, now); len(list) > 0 {
		row.Quota = &list[0]
	}
	switch {
	case row.Used.Dropped > 0, row.Quota != nil && row.Quota.Class == "over":
		row.State = "error"
	case row.Quota != nil && row.Quota.Class == "warn", row.Silent != "":
		row.State = "warn"
	case row.Used.Stored > 0:
		row.State = "ok"
	}
	return row
}

// lastHour says when something was last stored. Usage is counted by the hour.
func lastHour(last, now time.Time) string {
	switch {
	case last.IsZero():
		return "not in 24 hours"
	case !last.Before(now.Truncate(time.Hour)):
		return "this hour"
	}
	return since(last.Add(time.Hour), now)
}

// quietHours is after how many hours without records a project is marked as
// silent.
const quietHours = 2

// silence returns for how long a project has been silent that stored something
// in most of the hours before, and "" for all others.
func silence(u used, now time.Time) string {
	busy := 0
	for _, h := range u.Hours {
		if h.Stored > 0 {
			busy++
		}
	}
	silent := now.Sub(u.Last.Add(time.Hour))
	if u.Last.IsZero() || silent < quietHours*time.Hour || busy*2 < len(u.Hours)-int(silent/time.Hour) {
		return ""
	}
	return lengthOf(silent)
}

// newProjectView is the form that creates a project.
type newProjectView struct {
	Name  string
	Fault string
}

func (p *Pages) newProjectPage(r *request) error {
	return r.showNewProject(http.StatusOK, newProjectView{})
}

func (r *request) showNewProject(status int, v newProjectView) error {
	return r.renderStatus(status, "newproject", view{Title: "New project", Tab: "projects", Body: v})
}

// createProject creates a project and leads to its first log.
func (p *Pages) createProject(r *request) error {
	created, err := p.service.CreateProject(r.Request().Context(), r.caller, r.form.Get("name"))
	if errors.Is(err, project.ErrNameTaken) {
		return r.showNewProject(http.StatusConflict, newProjectView{r.form.Get("name"), "Another project has this name."})
	}
	if _, fault, ok := faultOf(err); ok {
		return r.showNewProject(http.StatusBadRequest, newProjectView{r.form.Get("name"), fault})
	}
	if err != nil {
		return err
	}
	r.project = created
	return r.goTo(r.projectPath("/start"))
}

// projectHome is where a project's name leads.
func (p *Pages) projectHome(r *request) error { return r.goTo(r.projectPath("/logs")) }
