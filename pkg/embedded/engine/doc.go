// Package engine runs ClickHouse through libchdb in a child process and serves
// ClickHouse's HTTP interface for it on loopback, so that the laptop and the
// cluster are used through the same client, clickhouse-go.
//
//	parent: Start ─▶ listener, data folder ─▶ child ─▶ ready ─▶ URL
//	                       ▲                    │ crash
//	                       └──── backoff ◀──────┘        Stop: drain, close, exit
//
// The child is the same binary in another mode, so a crash inside the engine
// is a restart and not the end of everything. The parent keeps the listening
// socket: address and password outlive the child, and requests that come
// during a restart wait for it. The child dies with its parent, whatever kills
// the parent.
//
// What a newcomer gets wrong: [Main] must be the first call of main and of
// TestMain. Without it the child is an ordinary copy of the program.
//
// The library is a file of 566 MB outside the tree. The program in fetch puts
// it into the cache folder; its digest is pinned and checked each time before
// it is loaded, because loading it runs its code.
package engine
