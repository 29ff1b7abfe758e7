// Package chdb calls the C interface of libchdb, the ClickHouse engine as a
// shared library. It sits at the very bottom: the HTTP front opens a
// connection here for each statement and closes it after.
//
// What a newcomer gets wrong: the bytes of a [Result] are the engine's own
// memory. They are valid until Close and not a moment longer.
//
// The functions and their rules are those of chdb.h, release 26.7.3.
package chdb
