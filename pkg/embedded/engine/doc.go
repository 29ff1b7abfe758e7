// Package engine runs ClickHouse as a library (libchdb) in a child process and
// serves ClickHouse's HTTP interface for it on loopback. So the same client,
// clickhouse-go, works on a laptop and with a cluster.
//
//	parent: Start ─▶ listener, data folder ─▶ child ─▶ ready ─▶ URL
//	                       ▲                    │ crash
//	                       └──── backoff ◀──────┘        Stop: drain, close, exit
//
// The child is the same program in another mode, so a crash of the engine
// restarts the child and does not end the process. The parent keeps the
// listening socket: address and password do not change when the child is
// restarted, and requests that arrive meanwhile wait. The child ends when its
// parent ends, for whatever reason.
//
// [Main] must be the first call of main and of TestMain. Without it the child
// would run the program itself.
//
// The library is a file of 566 MB outside the source tree. The program in the
// folder fetch downloads it into the cache folder. Its digest is pinned and is
// checked before each load, because loading it runs its code.
package engine
