package web

import "net/http"

// access is who may open a page. The zero value is nobody, so that a route that
// names no role is closed.
type access uint8

const (
	nobody   access = iota
	anyone          // without a session
	signedIn        // whoever is signed in
	member          // whoever may look into the project
	manager         // whoever may change the project
	owner           // who may do what concerns no single project
)

// String names the access in the route table.
func (a access) String() string {
	return [...]string{"nobody", "anyone", "signed in", "member", "admin", "admin of all projects"}[a]
}

// route is one page or one form's destination.
type route struct {
	method, path string
	access       access
	handle       func(*request) error
}

// Paths that others link to.
const (
	signInPath   = "/sign-in"
	setUpPath    = "/set-up"
	projectsPath = "/projects"
	accountPath  = "/account"
	usersPath    = "/installation/users"
	keysPath     = "/installation/keys"
	auditPath    = "/installation/audit"
	projectRoot  = "/projects/:project"
	settingsRoot = projectRoot + "/settings"
)

// routes is the route table. There is no other way to a page.
func (p *Pages) routes() []route {
	get, post := http.MethodGet, http.MethodPost
	return append([]route{
		{get, "/", signedIn, p.home},
		{get, signInPath, anyone, p.signInPage},
		{post, signInPath, anyone, p.signIn},
		{post, "/sign-out", anyone, p.signOut},
		{get, signInPath + "/company", anyone, p.companyBegin},
		{get, signInPath + "/company/back", anyone, p.companyBack},
		{get, setUpPath, anyone, p.setUpPage},
		{post, setUpPath, anyone, p.setUp},
		{post, "/theme", anyone, p.chooseTheme},
		{get, accountPath, signedIn, p.account},
		{post, accountPath, signedIn, p.changeAccount},
		{post, accountPath + "/password", signedIn, p.changePassword},

		{get, projectsPath, signedIn, p.projectsPage},
		{post, projectsPath, owner, p.createProject},
		{get, "/new-project", owner, p.newProjectPage},
		{get, projectRoot, member, p.projectHome},
		{get, projectRoot + "/start", member, p.startPage},
		{post, projectRoot + "/start", manager, p.startWithToken},
		{get, projectRoot + "/start/state", member, p.startState},

		{get, settingsRoot, member, p.settingsPage},
		{post, settingsRoot, manager, p.changeSettings},
		{get, settingsRoot + "/tokens", member, p.tokensPage},
		{post, settingsRoot + "/tokens", manager, p.createToken},
		{get, settingsRoot + "/tokens/:token/revoke", manager, p.revokePage},
		{post, settingsRoot + "/tokens/:token/revoke", manager, p.revokeToken},
		{get, settingsRoot + "/alerts", member, p.alertsPage},
		{post, settingsRoot + "/alerts", manager, p.changeAlerts},
		{post, settingsRoot + "/alerts/off", manager, p.clearAlerts},
		{get, settingsRoot + "/quotas", member, p.quotasPage},
		{post, settingsRoot + "/quotas", manager, p.changeQuotas},
		{get, settingsRoot + "/delete", manager, p.deletePage},
		{post, settingsRoot + "/delete", manager, p.deleteProject},

		{get, usersPath, owner, p.usersPage},
		{post, usersPath, owner, p.createUser},
		{post, usersPath + "/role", owner, p.changeUser},
		{get, usersPath + "/password", owner, p.userPasswordPage},
		{post, usersPath + "/password", owner, p.setUserPassword},
		{get, usersPath + "/delete", owner, p.deleteUserPage},
		{post, usersPath + "/delete", owner, p.deleteUser},
		{get, keysPath, owner, p.keysPage},
		{post, keysPath, owner, p.createKey},
		{get, keysPath + "/:key/revoke", owner, p.revokeKeyPage},
		{post, keysPath + "/:key/revoke", owner, p.revokeKey},
		{get, auditPath, owner, p.auditPage},
	}, p.lookRoutes()...)
}
