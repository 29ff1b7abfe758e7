// Package project keeps projects, their tokens, API keys and users: the system
// of record, in JetStream key-value buckets, and the cache that answers ingest
// "whose token is this?" for every request.
//
// It is the first stop of a record's path: ingest asks Cache.Authenticate
// before it reads a body, and carries the Identity's project ID from then on.
// Admin changes the record through Store; a change reaches every Cache by a
// watch on the bucket. What ingest has no need of, users and where alerts go, is
// in buckets of its own; the address of a webhook is sealed there, since who
// holds it can write to a chat (seal.go). The other way, a Cache tells the
// record which tokens are in use, at its leisure (notes.go).
//
//	         warm, < 500 ns         50 ms at most          the truth
//	token ─▶ process cache ──miss─▶ Shared (Redis) ──miss─▶ Store (KV bucket)
//	             ▲                     ▲                       │
//	             └──────── removed by ─┴── the watch ◀─────────┘
//
// What a newcomer gets wrong: that removing a cached entry is enough to revoke
// a token. A look-up in flight can put it back, a frozen Redis can keep it, and
// a broken watch never says that it went. So an entry is used only while the
// watch is proven to be up to date (follow.go), a look-up that was overtaken by
// a change is not kept (cache.go), and a shared entry counts only when it was
// read from the record after the last removal that this process knows of
// (shared.go). Together they bound a revoked token's life to 2 s, whatever of
// Redis or the watch is broken.
package project
