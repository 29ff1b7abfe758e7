// Package stream is the queue: its JetStream streams by name, and how messages are
// published to them and read from them.
//
// It stands between ingest, which publishes, and the writer and the notifier,
// which read. A message's payload is opaque here. A newcomer's usual mistake is to
// look for acknowledgements by readers. There are none: each reader keeps its
// position in the ledger (pkg/ledger).
//
//	Publish ─▶ pipeline LOGS_0 ──▶ LOGS_0   ──▶ Consumer ─▶ writer
//	        ─▶ pipeline LOGS_1 ──▶ LOGS_1   ──▶ …
//	        ─▶ pipeline EVENTS_0 ▶ EVENTS_0 ──▶ Consumer ─▶ writer, notifier
//	                               DEAD     ◀── PublishDeadLetter
//
// A pipeline gathers the bodies that are published to one stream:
//
//	waiting ────────▶ in flight ──acknowledged──▶ stored
//	   │                  │
//	   │ caller left,     │ refused: nothing was accepted
//	   │ queue away       │ no answer: ErrUnknown
//	   ▼                  ▼
//	nothing was accepted
package stream
