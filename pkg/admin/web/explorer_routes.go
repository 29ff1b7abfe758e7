package web

import "net/http"

const (
	logsRoot       = projectRoot + "/logs"
	eventsRoot     = projectRoot + "/events"
	operationsPath = "/operations"
)

// lookRoutes are the pages that look into what is stored and how it is doing.
func (p *Pages) lookRoutes() []route {
	get, post := http.MethodGet, http.MethodPost
	return []route{
		{get, logsRoot, member, p.logsPage},
		{get, logsRoot + "/edit", member, p.editLogs},
		{get, logsRoot + "/complete", member, p.completeLogs},
		{post, logsRoot + "/views", member, p.saveView},
		{post, logsRoot + "/views/delete", member, p.deleteView},
		{get, logsRoot + "/:id/context", member, p.contextPage},
		{get, eventsRoot, member, p.eventsPage},
		{get, operationsPath, owner, p.operationsPage},
		{get, operationsPath + "/dead-letters/:letter", owner, p.letterPage},
		{post, operationsPath + "/dead-letters/replay", owner, p.replayLetters},
	}
}
