// Package people stores who may use Logboom and recognises them: users with
// their passwords, API keys, sessions, and sign-in with a company account.
//
// It stands between a request to admin and the projects. Users and API keys are
// documents in the bucket USERS, sessions and memberships in SESSIONS and
// MEMBERS, so that any admin process answers any request.
//
//	API key ───────────▶ Store.APIKey
//	e-mail, password ──▶ Gate.SignIn ──▶ Sessions.Begin ──▶ cookie
//	company account ───▶ OIDC.Finish ──▶      │
//	cookie ────────────▶ Sessions.Person ◀────┘ who, in which role, in which projects
//
// A newcomer might expect a session to hold a role. It does not: each request
// reads the user again, so that a changed role, project or password and a
// deleted user take effect with the next request.
package people
