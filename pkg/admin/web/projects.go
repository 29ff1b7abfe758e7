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
	projectsPerPage = 50
	askedAtOnce     = 4 // projects' usage, so that one page does not fill the database's queue
	shownHours      = 24
)

// projectRow is one project of the list.
type projectRow struct {
	Name    string
	Path    string
	Created string
	State   string // ok, warn, error or idle
	Waiting bool   // nothing was ever stored, as far back as was asked
	Known   bool   // its usage could be read
	Used    used
	Chart   bars
	Quota   *meter // the fullest; nil: it has none
	Losses  string
	Silent  string // for how long, where it was not before
	Seen    string
}

// projectsView is the list with its sums.
type projectsView struct {
	Rows    []projectRow
	Total   used
	Lossy   int    // projects with losses
	Filter  string // what names must contain
	Next    string // where the next page begins, or none
	Asked   bool   // a filter or a page was asked for
	Unknown bool   // some usage could not be read
}

func (p *Pages) projectsPage(r *request) error {
	filter := strings.TrimSpace(r.QueryParam("filter"))
	found, next, err := r.seen(filter, r.QueryParam("after"))
	if err != nil {
		return err
	}
	v := projectsView{Filter: filter, Next: next, Asked: filter != "" || r.QueryParam("after") != ""}
	v.Rows = p.describeAll(r, found)
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

// seen gives a page of the projects that the person may see, by name, and where
// the next begins.
func (r *request) seen(filter, after string) (found []project.Project, next string, err error) {
	for len(found) <= projectsPerPage {
		page, err := r.pages.deps.Directory.Projects(r.Request().Context(), after, 0)
		if err != nil {
			return nil, "", err
		}
		if len(page) == 0 {
			break
		}
		after = page[len(page)-1].Name
		for _, one := range page {
			if r.person.May(one, false) && strings.Contains(one.Name, filter) {
				found = append(found, one)
			}
		}
	}
	if len(found) > projectsPerPage {
		found = found[:projectsPerPage]
		next = found[projectsPerPage-1].Name
	}
	return found, next, nil
}

// describeAll reads the usage of all projects of a page, some at a time. A
// project whose usage cannot be read is in the list without it.
func (p *Pages) describeAll(r *request, found []project.Project) []projectRow {
	ctx, cancel := r.asking()
	defer cancel()
	rows := make([]projectRow, len(found))
	var group errgroup.Group
	group.SetLimit(askedAtOnce)
	for i, one := range found {
		group.Go(func() error {
			rows[i] = p.describe(ctx, one)
			return nil
		})
	}
	_ = group.Wait() // nobody fails
	slices.SortStableFunc(rows, func(a, b projectRow) int { return rank(b.State) - rank(a.State) })
	return rows
}

// rank brings what needs a look to the top.
func rank(state string) int { return strings.Index("idle ok   warn error", state) }

func (p *Pages) describe(ctx context.Context, found project.Project) projectRow {
	row := projectRow{Name: found.Name, Path: projectsPath + "/" + url.PathEscape(found.Name), State: "idle"}
	quotas := found.Settings.Quotas(p.deps.Defaults)
	now := p.now().UTC()
	row.Created = since(found.Created, now)
	u, err := p.usageOf(ctx, found, shownHours, quotas.MonthlyBytes > 0)
	if err != nil {
		p.deps.Logger.Warn("usage not shown", "project", found.Name, "err", err)
		return row
	}
	row.Known, row.Used, row.Chart = true, u, chart(u, 5, 2, 28)
	row.Waiting = u.Last.IsZero() && now.Sub(found.Created) < shownHours*time.Hour
	row.Seen = lastHour(u.Last, now)
	row.Losses, row.Silent = lossText(u.Reasons), silence(u, now)
	if list := meters(u, quotas, now); len(list) > 0 {
		row.Quota = &list[0]
	}
	row.State = row.state()
	return row
}

// state is the worst that is known of the project.
func (row *projectRow) state() string {
	switch {
	case row.Used.Dropped > 0 || row.Quota != nil && row.Quota.Class == "over":
		return "error"
	case row.Quota != nil && row.Quota.Class == "warn", row.Silent != "":
		return "warn"
	case row.Used.Stored == 0:
		return "idle"
	}
	return "ok"
}

// lastHour says when something was last stored; usage is known by the hour.
func lastHour(last, now time.Time) string {
	switch {
	case last.IsZero():
		return "not in 24 hours"
	case !last.Before(now.Truncate(time.Hour)):
		return "this hour"
	}
	return since(last.Add(time.Hour), now)
}

// quietHours without anything, after a day that had something in most hours,
// are worth a look.
const quietHours = 2

// silence is for how long a project has been silent that usually is not.
func silence(u used, now time.Time) string {
	busy := 0
	for _, h := range u.Hours {
		if h.Stored > 0 {
			busy++
		}
	}
	gone := now.Sub(u.Last.Add(time.Hour))
	if u.Last.IsZero() || gone < quietHours*time.Hour || busy*2 < len(u.Hours)-int(gone/time.Hour) {
		return ""
	}
	return ahead(gone)
}

// newProjectView is the form that makes a project.
type newProjectView struct {
	Name  string
	Fault string
}

func (p *Pages) newProjectPage(r *request) error {
	return r.render("newproject", view{Title: "New project", Tab: "projects", Body: newProjectView{}})
}

// createProject makes a project and leads to its first log.
func (p *Pages) createProject(r *request) error {
	form, err := r.readForm()
	if err != nil {
		return err
	}
	ctx, cancel := r.changing()
	defer cancel()
	made, err := p.deps.Directory.CreateProject(ctx, form.Get("name"))
	again := newProjectView{Name: form.Get("name")}
	status := http.StatusBadRequest
	if errors.Is(err, project.ErrNameTaken) {
		again.Fault, status = "There is a project of this name.", http.StatusConflict
	} else if _, fault, ok := faultOf(err); ok {
		again.Fault = fault
	}
	if again.Fault != "" {
		return r.renderStatus(status, "newproject", view{Title: "New project", Tab: "projects", Body: again})
	}
	if err != nil {
		return err
	}
	r.project = made
	r.changed(ctx, "project.created", "")
	return r.goTo(r.projectPath("/start"))
}

// projectHome is where a project's name leads to.
func (p *Pages) projectHome(r *request) error { return r.goTo(r.projectPath("/logs")) }
