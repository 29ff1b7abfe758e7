// Package spool keeps on disk what was read from the containers' FIFOs until
// it has been delivered, within a bound.
//
// It sits between the FIFOs and the sender. A Stream is the bytes of one FIFO
// as they came, in files of one segment each; a Cursor beside them says how far
// they have been delivered and which batch is under way:
//
//	         delivered      │ batch under way   │ waiting             half a frame
//	…────────────────────── From ───────────── Cut.To ──────────────────┬──── end
//	removed, segment by segment                                         └ completed by the next read
//
// What a newcomer would get wrong is how little happens when bytes are read.
// They go from the FIFO to the file by splice(2), inside the kernel: there is
// no moment at which they have left the one and are not in the other, so that
// a kill -9 at any time loses nothing and doubles nothing, a half-read frame
// included. (Where a file system knows no splice they pass through this
// process; then a kill between two system calls loses up to 64 KiB.) Lines are
// found, joined and counted when a batch is made, and from the bytes alone: the
// same bytes give the same batch, after a restart too.
//
// A kill of the process leaves what was written in the kernel's cache. Against
// a power loss, what waits for longer than a second is synced, all streams in
// one round.
//
// States of a Stream:
//
//	          Take fails to write, after the oldest was dropped
//	storing ──────────────────────────────────────────────▶ void: bytes are read, counted, thrown away
//	   ▲  ◀───────────────────────────────────────────────     │
//	   │            a segment can be made again (tried once a second)
//	   │
//	   └── Break: out of step; what is there and in the FIFO is thrown away, and the FIFO opened anew
package spool
