// Package session knows who is at the pages: it signs people in, remembers them
// for a while, and says what they may do.
//
// It stands between a page's request and the record of users. Sessions are
// documents in a key-value bucket of the queue, so that any admin process
// answers any request, and end where they are deleted.
//
//	e-mail, password ──▶ Gate.SignIn ──▶ Sessions.Begin ──▶ cookie
//	company account ───▶ OIDC.Finish ──▶      │
//	cookie ────────────▶ Sessions.Person ◀────┘ who, in which role, in which projects
//
// What a newcomer would get wrong: a session holds no role. Each request reads
// the user anew, so that a role that was taken, a project that was withdrawn, a
// password that was changed and a user who was deleted count from the next
// request on.
package session
