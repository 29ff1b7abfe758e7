// Package notify brings alerts to chats: events that ask for it, logs at or
// above a severity, and quotas that run out.
//
// It sits beside the writer behind the streams of events. Partitions are shared
// among notifiers by leases. Whoever holds one moves its events into the
// outbox, where they wait by destination, and delivers what waits there:
//
//	EVENTS_<n> ─ intake ─▶ outbox ─ desk ─▶ destination ─▶ chat
//	LOGS_<n>  ── watch ──▶   │                  │ rows
//	usage     ── quotas ─▶   │                  ▼
//	                         │          recorder ─▶ ClickHouse
//
// A destination is one project's address, with its own queue, pace and state:
//
//	         answer: taken                       a failure that may pass
//	┌──────────────────────────── active ───────────────────────────┐
//	│                              │  ▲                             ▼
//	└──────────────────────────────┼──┴────── taken ───────── backing off
//	                               │                                │
//	  permanent error of the address, or 24 h of failures           │
//	                               ▼                                │
//	                           disabled ◀───────────────────────────┘
//	  (what comes is a dead letter; one an hour is tried; another address
//	   makes it active)
//
// Each attempt is: intent (compare-and-swap), request, outcome (compare-and-
// swap), rows, removal from the outbox. Whoever takes over finds the intent. If
// the outcome is missing, the request may have arrived: it is made again under
// the same ID. Google Chat and receivers of the generic format drop the second
// copy by it; people of the other services see that it was sent again.
//
// What a newcomer would get wrong: a lease decides who works, never whether a
// write is right. Whoever loses a swap stops at once.
package notify
