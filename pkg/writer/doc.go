// Package writer moves records from the queue into ClickHouse, each row once.
//
// It sits between the streams, two per shard, and the tables. Writers share the
// shards by leases. Each stream of a shard that a writer holds has one worker,
// which owns its batch and its position in the ledger:
//
//	  ┌──────────────── any other error, after a pause ────────────────────┐
//	  ▼                                                                    │
//	take over ─▶ gather ─▶ intend ─▶ insert ─first attempt acknowledged─▶ usage ─▶ commit
//	  │  ▲          ▲                  │                                   ▲        │
//	  │  │          │                  │ anything else                     │        │
//	  │  │          │                  ▼                                   │        │
//	  └──┼─ intent ─┼─────────────▶ resolve: count by partition ─all there─┤        │
//	     │  left    │                  │  ▲                                │        │
//	     │          │     missing ─────┤  └── insert what is missing with  │        │
//	     │          │                  │      the same token, or with a new│        │
//	     │          │                  │      one if the token is burnt    │        │
//	     │          │     refused ─────┤                                   │        │
//	     │          │     permanently  ├──▶ halve the intent, resolve      │        │
//	     │          │                  └──▶ one message: dead letter ──────┘        │
//	     │          └───────────────────────────────────────────────────────────────┘
//	     │ a minute later
//	stopped: rows that no insert of ours leaves, a gap, a lost queue
//
// If a write to the ledger shows that another writer has taken over, the worker
// ends at once, from every state.
//
// What a newcomer would get wrong: a token alone does not make an insert exactly
// once. ClickHouse logs the token before the rows are there. So whenever the
// result of an insert is in doubt, the rows are counted, and the token only stops
// an insert that arrives late. Nothing is inserted without an intent in the
// ledger, and an intent is finished before anything else. A message is never
// acknowledged to the queue; the only position is the ledger's.
//
// Usage has the same intent but needs no count. A row of usage holds everything
// that the stream has brought a project in an hour, up to a message; of two rows
// with the same key the one that counts more replaces the other. So usage is
// inserted after the rows, with a new token for each attempt, until one attempt
// is acknowledged, and a batch that the table already includes is not added.
//
// Rows whose retention has passed may go with any merge, so a count does not
// miss them. If the retention of all rows of a partition has passed, the
// partition counts as stored.
//
// What ClickHouse loses after it has acknowledged an insert is not stored again:
// that is for replicas and backups. The audit finds it and reports it;
// docs/decisions/0006-durability.md says how.
//
// Two losses are accepted. A writer that is paused between the write of an intent
// and its insert for so long that ClickHouse has forgotten the token (10,000
// blocks later) would double its batch; a check of the clock just before the
// insert makes that as unlikely as a pause inside one system call. And what the
// replay window no longer holds cannot be read again.
package writer
