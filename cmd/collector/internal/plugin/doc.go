// Package plugin is what dockerd talks to: the log-driver protocol over a unix
// socket, and a session for each container's log.
//
// A session is one FIFO: a goroutine that moves its bytes into a spool.Stream,
// and one that delivers them. What a newcomer would get wrong: dockerd calls
// StartLogging once and never again, not even after this process has died, and
// its containers block while nobody reads. So every session is in the spool
// with all it needs, and is taken up again at start.
//
//	StartLogging ─▶ open ──StopLogging, or nobody writes any more──▶ over ──delivered──▶ gone
//	                 ▲ │
//	     start again │ │ this process ends
//	                 │ ▼
//	              in the spool: the FIFO holds what was not read
//
// A FIFO without a writer at start belongs to a container that ended meanwhile:
// its session is over and what it left in the spool is delivered.
//
// dockerd also starts and stops a log when somebody reads a stopped
// container's log. Nothing is written to such a FIFO, and nothing is sent.
package plugin
