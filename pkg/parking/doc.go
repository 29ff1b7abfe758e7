// Package parking lets an HTTP server hold many idle connections in little
// memory.
//
// net/http keeps two buffers of 4 KiB and a goroutine for as long as a
// connection is open, 18 KiB in all. Most connections of senders only wait for
// their next request. A Lot stands between the port and the server: it takes
// the sockets of those that wait away from the server, watches them by one
// epoll set, and gives them back as if they were new when a byte comes.
//
//	port ─▶ Arrivals ─▶ served ──▶ idle for Wait ──▶ parked ──▶ a byte ──▶ Returns ─▶ served …
//	                      │                            │
//	                      ▼                            ▼
//	       closed by the server, as ever      closed by the sender,
//	                                          the idle timeout, Close
//
// The server believes that a parked connection has ended: its Read says EOF,
// and the Close that follows hands the socket over instead of closing it. What
// a newcomer would get wrong: that is only allowed between an answer and the
// first byte of the next request. Bytes of it that the server has read along
// with the request before would be lost. A Read that does not ask for a full
// buffer shows them; such a connection stays where it is. TLS connections stay
// too, for their state lives above the socket.
//
// Elsewhere than on Linux nothing is parked.
package parking
