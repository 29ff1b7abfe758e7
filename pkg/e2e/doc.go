// Package e2e holds the end-to-end suite: the same tests, run against
// standalone and against the separate processes over engines of their own, as
// a user would start and use them. There is no code here but tests.
//
// The real processes are built and started; NATS, Redis and ClickHouse are the
// real engines. LOGBOOM_CORPUS names a folder of *.log files whose lines are
// sent; without it the suite makes lines of its own.
package e2e
