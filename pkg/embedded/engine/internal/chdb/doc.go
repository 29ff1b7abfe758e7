// Package chdb calls the C interface of libchdb, the ClickHouse engine as a
// shared library. The HTTP front opens a connection for each statement and
// closes it afterwards.
//
// The bytes of a [Result] are the engine's own memory. They are valid only until
// Close.
//
// Source of the functions and their rules: chdb.h, release 26.7.3.
package chdb
