// Package stream is the queue: the JetStream topology by name, and what goes
// in and out of it.
//
// It sits between ingest, which publishes, and the writer and the notifier,
// which consume. A message's payload is opaque bytes here. A newcomer's usual
// mistake is to look for acknowledgements on the reading side: there are none.
// What has been dealt with is written in the Ledger, by compare-and-swap, and
// nowhere else.
//
//	Publish ─▶ lane LOGS_0 ──▶ LOGS_0   ──▶ Consumer ─▶ caller ─▶ Ledger w.LOGS_0
//	        ─▶ lane LOGS_1 ──▶ LOGS_1   ──▶ …
//	        ─▶ lane EVENTS_0 ▶ EVENTS_0 ──▶ Consumer ─▶ caller ─▶ Ledger w.EVENTS_0, n.EVENTS_0
//	                           DEAD      ◀── Bury
//
// One lane gathers what is published to one stream:
//
//	waiting ──take──▶ in flight ──acknowledged──▶ settled
//	   │                  │
//	   │ caller left,     │ refused: settled, nothing was accepted
//	   │ queue away       │ no answer: settled, ErrUnknown
//	   ▼                  ▼
//	settled: nothing was accepted
package stream
