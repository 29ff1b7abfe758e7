//go:build linux

// Command torture proves that what was accepted is in ClickHouse exactly once,
// whatever dies when. It runs the real processes over the real engines, breaks
// them one after the other while numbered records are sent, and counts in the
// end what is stored.
//
//	                       ┌── faults: kill, stop, failpoint, injected error, ──┐
//	                       │   power loss, full disk, partition, poison         │
//	                       ▼                                                    ▼
//	load ──HTTP──▶ ingest ×2 ──proxy──▶ nats-server ──proxy──▶ writer ×2 ──proxy──▶ ClickHouse
//	  │                                                                              │
//	  └──▶ journal: accepted, refused, unknown ──────▶ oracle ◀── every row ─────────┘
//
// The journal is what the senders were told. The oracle holds the rows against
// it: an accepted record is there once, a refused one never, an unknown one at
// most once, and nothing else is there.
//
// What a newcomer would get wrong: a harness that finds nothing may be blind.
// -control puts a writer with a known flaw in the place of the real one, and
// then the run fails unless the oracle catches it. For the same reason a fault
// that was chosen and had no effect fails the run, and so does one whose tool
// is missing on this machine.
//
//	go run ./pkg/e2e/torture -duration 5m
//	go run ./pkg/e2e/torture -faults failpoints,zombie -duration 2m -seed 7
//	go run ./pkg/e2e/torture -faults kills -rounds 40 -duration 10m
//	go run ./pkg/e2e/torture -faults away-engine -away 10m -duration 11m
//	go run ./pkg/e2e/torture -faults kills,clock -duration 3m
//	go run ./pkg/e2e/torture -control naive
//	go run ./pkg/e2e/torture -list
//
// Errors of the disk have ClickHouse lose parts that it said were stored, and
// keep such that it said were not; the writers find both and put them right from
// the queue. A run with such faults starts the engine anew in the end, so that
// nothing is hidden by its memory, and waits until every part can be read and no
// row is there twice.
//
// The faults of the group clock move the clock of the whole machine and back, and
// are inflicted only where they are named.
//
// Faults of the disk mount two ext4 images through loop devices and need root.
// The mounts are made in a mount namespace of this run, so that they are gone
// when the run is, however it ended.
package main
