// Package quota says whether a project may send n records of b bytes now, and
// when to try again if not.
//
// It is the second stop of a record's path, and the third: ingest asks Spent
// before it reads a body and Take when it has decoded it, and calls Refund
// where the queue did not accept what was taken.
//
// Memory counts for one process. Redis counts for several, which share the
// counters in leases: a script takes a lease from the counter first, and the
// process spends it in memory. An account is what a process knows of one
// project:
//
//	    Take, Spent: in memory
//	           │
//	        leased ──── less than 30 % left ────▶ refilled in the background
//	         │  ▲                                        │
//	 used up │  └────── the script grants ◀──────────────┘
//	         ▼                  ▲
//	      asks Redis ───────────┤                 refuses: *Exceeded, and for a
//	         │                  │                 second nobody asks again
//	no answer in 50 ms          │
//	         ▼                  │
//	       alone ── the probe is answered: what was used is counted first
//
// What a newcomer gets wrong: that a flight (one call of the script) without
// an answer was not carried out. A paused Redis carries it out later. So a
// flight has a number, an account has one flight at a time, and one without an
// answer is sent again, the same, before any other; Redis settles each number
// once.
//
// The bounds, of daily_records and monthly_bytes. A batch is taken whole while
// the counter, without what its process has leased, is below the limit. So
//
//   - above: what is taken stays below the limit plus one batch, over all
//     processes together and however many cross;
//   - below: a project is refused only when less is left than the leases of the
//     other processes. A lease is 2 s of a process's use or 8 of its batches,
//     whichever is more, and never over an eighth of what was left. One that is
//     not used for a minute is given back, as all are at the end of Run; a process
//     that crashes takes its lease along, until the window ends.
//
// Of rate: in any t seconds at most rate × t + 10 × rate + one batch pass, over
// all processes together. Leases are noted in Redis and its bucket fills up
// only to the burst less the leases, so that both together never exceed the
// burst; a lease ends after 10 s, also that of a crashed process.
//
// While Redis is away, and for a Take that Redis is too slow for, each process
// counts for itself, from the totals it saw last: up to that much more passes once for each process, and nothing is
// refused because Redis is away. What was used is counted when Redis is back;
// of the rate, only until the bucket is empty. A Redis that lost its counters
// gets back the highest totals that any process has seen, from each when it
// asks next; what others took between that process's last question and the
// loss counts from when they ask. Where nobody remembers, Whole says so, and
// Restore makes it good.
//
// A window is chosen by the process's clock, and the bucket goes by that of
// Redis. Clocks that differ by d have a process count in the next window d too
// early or too late; nothing is counted twice.
package quota
