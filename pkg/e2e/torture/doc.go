//go:build linux

// Command torture tests that every accepted record is in ClickHouse exactly once,
// whatever fails. It runs the real processes over the real engines, breaks them
// one after the other while numbered records are sent, and at the end compares
// what is stored with what was accepted.
//
//	                       ┌── faults: kill, stop, failpoint, injected error, ──┐
//	                       │   power loss, full disk, partition, poison         │
//	                       ▼                                                    ▼
//	load ──HTTP──▶ ingest ×2 ──proxy──▶ nats-server ──proxy──▶ writer ×2 ──proxy──▶ ClickHouse
//	  │                                                                              │
//	  └──▶ journal: accepted, refused, unknown ──────▶ oracle ◀── every row ─────────┘
//
// The journal has the answers that the clients got. The oracle compares the rows
// with it: an accepted record is stored once, a refused one never, one without an
// answer at most once, and nothing else is stored.
//
// What a newcomer would get wrong: a harness that finds nothing may be blind.
// -control replaces the writer by one with a known flaw, and then the run fails
// unless the oracle finds the flaw. For the same reason a run fails if a chosen
// fault had no effect, or if its tool is missing on this machine.
//
//	go run ./pkg/e2e/torture -duration 5m
//	go run ./pkg/e2e/torture -faults failpoints,zombie -duration 2m -seed 7
//	go run ./pkg/e2e/torture -faults kills -rounds 40 -duration 10m
//	go run ./pkg/e2e/torture -faults away-engine -away 10m -duration 11m
//	go run ./pkg/e2e/torture -faults kills,clock -duration 3m
//	go run ./pkg/e2e/torture -control naive
//	go run ./pkg/e2e/torture -list
//
// Errors of ClickHouse's disk make it lose parts that it acknowledged, and keep
// parts that it refused. The writers do not repair that: their audit must report
// as many rows missing or doubled as the oracle finds. A run with such faults
// restarts the engine at its end, so that its memory hides nothing, and detaches
// the parts that it cannot read, as the runbook says. In a run without such
// faults the audit must report nothing.
//
// The faults of the group clock move the clock of the whole machine and back.
// They are inflicted only if they are named.
//
// Faults of the disk mount two ext4 images through loop devices and need root.
// The mounts are made in a mount namespace of the run, so that they end with it,
// however it ends.
package main
