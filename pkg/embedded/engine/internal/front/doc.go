// Package front serves ClickHouse's HTTP interface for the engine in this
// process, so that clickhouse-go works with it as with a server. Each request is
// one statement, which runs on a connection of its own.
//
// An INSERT whose body ends early must be cancelled. Committing it would store
// part of a batch together with the batch's deduplication token, and ClickHouse
// would drop the client's retry as a duplicate.
//
//	request ─▶ authorize ─▶ parse ─▶ slot ─▶ connect, USE, SET ─┬▶ insert: body ─▶ engine
//	                                                            └▶ query: engine ─▶ reply
package front
