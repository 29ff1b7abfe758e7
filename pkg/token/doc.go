// Package token stores the tokens that clients send records with, and finds the
// project of a token for every request.
//
// It is the first step of a record's path: ingest calls Cache.Authenticate
// before it reads a body, and carries the Identity's project ID from then on.
// Admin creates and deletes tokens through Store, in the bucket PROJECTS beside
// the projects; a change reaches every Cache by a watch on that bucket. In the
// other direction, a Cache records in the bucket USES which tokens are used
// (uses.go).
//
//	         cached, < 500 ns       50 ms at most          the record
//	token ─▶ process cache ──miss─▶ Shared (Redis) ──miss─▶ Store (KV bucket)
//	             ▲                     ▲                       │
//	             └──── removed by ─────┴─────── the watch ◀────┘
//
// A newcomer might expect that removing a cached entry is enough to revoke a
// token. It is not: a lookup in progress can put it back, a frozen Redis can
// keep it, and a broken watch reports nothing. Therefore an entry is used only
// while the watch is known to be complete (watch.go), a lookup during which
// something changed is not cached (cache.go), and an entry of the shared cache
// counts only if it was read from the record after the last removal that this
// process knows of (shared.go). Together they bound the life of a revoked token
// to 2 s, even if Redis or the watch is broken.
package token
