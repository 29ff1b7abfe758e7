// Package e2e is the end-to-end suite. It runs the same tests against standalone
// and against the separate processes with their own engines, started as a user
// starts them. It contains only tests.
//
// The suite builds and starts the real processes and the real engines: NATS,
// Redis and ClickHouse. LOGBOOM_CORPUS names a folder of *.log files whose lines
// are sent. Without it the suite generates lines.
package e2e
