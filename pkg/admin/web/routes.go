package web

import (
	"net/http"

	"github.com/logboom/logboom/pkg/admin"
)

// route is one page, or where one form is sent.
type route struct {
	method, path string
	operation    admin.Operation
	handle       func(*request) error
}

// Paths that others link to.
const (
	signInPath     = "/sign-in"
	setUpPath      = "/set-up"
	projectsPath   = "/projects"
	accountPath    = "/account"
	usersPath      = "/installation/users"
	keysPath       = "/installation/keys"
	auditPath      = "/installation/audit"
	operationsPath = "/operations"
	projectRoot    = "/projects/:project"
	settingsRoot   = projectRoot + "/settings"
	logsRoot       = projectRoot + "/logs"
)

// routes is the route table. There is no other way to a page.
func (p *Pages) routes() []route {
	get, post := http.MethodGet, http.MethodPost
	return []route{
		{get, "/", admin.UseAccount, p.home},
		{get, signInPath, admin.SignIn, p.signInPage},
		{post, signInPath, admin.SignIn, p.signIn},
		{post, "/sign-out", admin.SignIn, p.signOut},
		{get, signInPath + "/company", admin.SignIn, p.beginCompanySignIn},
		{get, signInPath + "/company/back", admin.SignIn, p.finishCompanySignIn},
		{get, setUpPath, admin.SignIn, p.setUpPage},
		{post, setUpPath, admin.SignIn, p.setUp},
		{post, "/theme", admin.SignIn, p.chooseTheme},
		{get, accountPath, admin.UseAccount, p.accountPage},
		{post, accountPath, admin.UseAccount, p.changeAccount},
		{post, accountPath + "/password", admin.UseAccount, p.changePassword},

		{get, projectsPath, admin.ListProjects, p.projectsPage},
		{post, projectsPath, admin.CreateProject, p.createProject},
		{get, "/new-project", admin.CreateProject, p.newProjectPage},
		{get, projectRoot, admin.ReadProject, p.projectHome},
		{get, projectRoot + "/start", admin.ReadTokens, p.startPage},
		{post, projectRoot + "/start", admin.ChangeTokens, p.startWithToken},
		{get, projectRoot + "/start/state", admin.ReadUsage, p.startState},

		{get, settingsRoot, admin.ReadSettings, p.settingsPage},
		{post, settingsRoot, admin.ChangeSettings, p.changeSettings},
		{get, settingsRoot + "/tokens", admin.ReadTokens, p.tokensPage},
		{post, settingsRoot + "/tokens", admin.ChangeTokens, p.createToken},
		{get, settingsRoot + "/tokens/:token/revoke", admin.ChangeTokens, p.revokeToken},
		{post, settingsRoot + "/tokens/:token/revoke", admin.ChangeTokens, p.revokeToken},
		{get, settingsRoot + "/alerts", admin.ReadAlerts, p.alertsPage},
		{post, settingsRoot + "/alerts", admin.ChangeAlerts, p.changeAlerts},
		{post, settingsRoot + "/alerts/off", admin.ChangeAlerts, p.clearAlerts},
		{get, settingsRoot + "/quotas", admin.ReadSettings, p.quotasPage},
		{post, settingsRoot + "/quotas", admin.ChangeSettings, p.changeQuotas},
		{get, settingsRoot + "/delete", admin.DeleteProject, p.deleteProject},
		{post, settingsRoot + "/delete", admin.DeleteProject, p.deleteProject},

		{get, usersPath, admin.ManageUsers, p.usersPage},
		{post, usersPath, admin.ManageUsers, p.createUser},
		{post, usersPath + "/role", admin.ManageUsers, p.changeUser},
		{get, usersPath + "/password", admin.ManageUsers, p.userPasswordPage},
		{post, usersPath + "/password", admin.ManageUsers, p.setUserPassword},
		{get, usersPath + "/delete", admin.ManageUsers, p.deleteUser},
		{post, usersPath + "/delete", admin.ManageUsers, p.deleteUser},
		{get, keysPath, admin.ManageKeys, p.keysPage},
		{post, keysPath, admin.ManageKeys, p.createKey},
		{get, keysPath + "/:key/revoke", admin.ManageKeys, p.revokeKey},
		{post, keysPath + "/:key/revoke", admin.ManageKeys, p.revokeKey},
		{get, auditPath, admin.ReadAudit, p.auditPage},

		{get, logsRoot, admin.ReadRecords, p.logsPage},
		{get, logsRoot + "/edit", admin.ReadRecords, p.editLogs},
		{get, logsRoot + "/complete", admin.ReadRecords, p.completeLogs},
		{get, logsRoot + "/rows", admin.ReadRecords, p.olderRows},
		{get, logsRoot + "/tail", admin.ReadRecords, p.tailLogs},
		{get, logsRoot + "/:id/fields", admin.ReadRecords, p.logFields},
		{post, logsRoot + "/views", admin.SaveViews, p.saveView},
		{post, logsRoot + "/views/delete", admin.SaveViews, p.deleteView},
		{get, logsRoot + "/:id/context", admin.ReadRecords, p.contextPage},
		{get, projectRoot + "/events", admin.ReadRecords, p.eventsPage},
		{get, operationsPath, admin.ReadOperations, p.operationsPage},
		{get, operationsPath + "/dead-letters/:letter", admin.ManageDeadLetters, p.letterPage},
		{post, operationsPath + "/dead-letters/replay", admin.ManageDeadLetters, p.replayLetters},
	}
}
