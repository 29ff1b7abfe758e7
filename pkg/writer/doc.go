// Package writer moves records from the queue into ClickHouse.
//
// It sits between the streams, one a shard, and the tables. Each stream has
// one worker, which owns its batch and its place in the ledger:
//
//	     ┌────────────────────────── any error, after a pause ───────────────┐
//	     ▼                                                                   │
//	take over ──▶ finish the intent ──▶ gather ──▶ intend ──▶ insert ──▶ commit
//	     ▲        that was left, if any    ▲                                 │
//	     │                                 └─────────────────────────────────┘
//	fenced: another writer has the stream; stand by until it moves no more
//
// What a newcomer would get wrong: nothing is inserted that the ledger does
// not hold an intent for, and a range that was once intended is inserted again
// with the same cut and the same token. A message is never acknowledged to the
// queue; the ledger's position is the only one.
package writer
