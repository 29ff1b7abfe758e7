// Package front speaks ClickHouse's HTTP interface for the engine in this
// process, so that clickhouse-go works with it as with a server. It is the
// child process's only door: a request comes in, becomes one statement on a
// connection of its own, and its result goes out.
//
// What a newcomer gets wrong: a body that ends early must cancel its INSERT.
// Committing what has arrived would store part of a batch together with its
// deduplication token, and the client's retry would be dropped as a duplicate.
//
//	request ─▶ authorize ─▶ parse ─▶ slot ─▶ connect, USE, SET ─┬▶ insert: body ─▶ engine
//	                                                            └▶ query: engine ─▶ reply
package front
