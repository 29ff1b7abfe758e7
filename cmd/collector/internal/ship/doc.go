// Package ship delivers what a spool.Stream holds: it cuts batches, sends
// them, and commits what was delivered.
//
// A Sender works one stream; senders with the same option.Destination share a
// Route, which has the connections, a few benches to build bodies on, and the
// pause that an answer asks for. One batch:
//
//	wait ─▶ bench ─▶ cut, written down ─▶ POST ─┬─ 200 ──────────────▶ commit
//	          ▲                                 ├─ 413 ──────────────▶ cut again, half as many lines
//	          │                                 ├─ 400, 413 for one ─▶ dead letter, counted, commit
//	          └── the same body, the same key ◀─┴─ all else ─────────▶ pause: Retry-After, or growing
//
// What a newcomer would get wrong: a batch that was sent once stays as it is,
// whatever comes after it. Its key is the server's means to store a repeat
// only once, and the server remembers keys for two minutes: a repeat later
// than that, of a batch that did arrive although no answer said so, is stored
// twice. Waiting costs no memory: a body is built anew for each attempt.
package ship
