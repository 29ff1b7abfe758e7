// Package writer moves records from the queue into ClickHouse, each row once.
//
// It sits between the streams, two a shard, and the tables. Shards are shared
// among writers by leases; each stream of a shard that is held has one worker,
// which owns its batch and its place in the ledger:
//
//	  ┌─────────────────── any other error, after a pause ────────────────────────┐
//	  ▼                                                                           │
//	take over ─▶ gather ─▶ intend ─▶ insert ──ok, the first attempt──▶ usage ─▶ commit
//	  │  ▲          ▲                  │                                 ▲        │
//	  │  │          │                  │ anything else                   │        │
//	  │  │          │                  ▼                                 │        │
//	  └──┼─ intent ─┼─────────────▶ resolve: count by partition ─all─────┤        │
//	     │  left    │                  │  ▲                              │        │
//	     │          │     missing ─────┤  └── insert what is missing     │        │
//	     │          │                  │      same token; new token,     │        │
//	     │          │                  │      where it is burnt          │        │
//	     │          │     refused ─────┤                                 │        │
//	     │          │     for good     ├──▶ halve the intent, resolve    │        │
//	     │          │                  └──▶ one message: dead letter ────┘        │
//	     │          └──────────────────────────────────────────────────────────────┘
//	     │ a minute later
//	stopped: more rows than wanted that are no copies, a part-filled partition, a gap, a lost queue
//
// A swap of the ledger that is lost (another writer has taken over) ends the
// worker at once, from every state.
//
// What a newcomer would get wrong: a token alone makes nothing exactly once.
// ClickHouse logs it before the rows are there, so after any doubt the rows are
// counted, and the token is only what stops an insert that arrives late.
// Nothing is inserted that the ledger does not hold an intent for, and whatever
// was intended is settled before anything else is. A message is never
// acknowledged to the queue; the ledger's position is the only one.
//
// Usage travels under the same intent but needs no count. A row of it has all
// that the stream has brought a project in an hour, up to a message; of two with
// the same key the one that counts more replaces the other. So they are sent,
// after the rows, under a token of each try's own, until one is answered with
// ok, and what a batch adds is left out where the table has it already.
//
// Rows whose retention has passed may go with any merge, so they are not missed
// when rows are counted: of a partition, those must be there that still last.
// Where none lasts, the partition counts as settled.
//
// ClickHouse may lose what it has answered ok for: parts that it cannot read,
// and those that it puts aside when it starts. The healer looks for them, takes
// the former out of use, and has each worker mend its stream from what the
// queue still has: message by message, those without a row are stored again,
// under intents of a key of their own. Rows that ClickHouse has twice are
// replaced from the queue too; mend_doubled.go has how.
// docs/decisions/0006-durability.md has what is done with which part.
//
// Two losses are accepted. A writer that is paused between the swap and the
// socket for so long that ClickHouse has forgotten the token (10,000 blocks, or
// the part was detached) would double its batch; a look at the clock right
// before it sends narrows that to the time of one system call. And a replay
// window that is purged takes with it what could be looked at again.
package writer
