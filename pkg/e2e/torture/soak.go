//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

// What a soak allows. A process grows at first, while its pools and caches fill, so
// only the last two thirds of its longest life are compared.
const (
	soakLife = time.Minute // a shorter life says nothing about growth

	// How much more the last third may hold than the second: a quarter, and what
	// one burst needs. ClickHouse has the files of all parts open that it merges
	// (measured without a fault: 270 to 430; on a busy machine 700).
	moreFDs        = 64
	moreEngineFDs  = 512
	moreGoroutines = 128
	moreMemory     = 96 << 20

	// queueShare is the share of a stream's limit, in percent, that may be in use
	// once everything is stored: the replay window is 20, and the next purge.
	queueShare  = 25
	purgedAfter = time.Minute
)

// mostMemory is how much memory each of our processes may have, in bytes, by the
// first word of its name.
var mostMemory = map[string]int64{"ingest": 150 << 20, "writer": 400 << 20}

// judgeSoak adds failures for what was held too long or grew.
func (r *run) judgeSoak(ctx context.Context, result *report) {
	for _, service := range r.system.services() {
		life := r.sampler.longest[service.name]
		files := int64(moreFDs)
		if service.ops == "" { // an engine
			files = moreEngineFDs
		}
		for _, growth := range life.grown(files) {
			result.fail("grew", service.name+": "+growth)
		}
		if limit := mostMemory[group(service.name)]; limit > 0 && life.most.rss > limit {
			result.fail("memory", fmt.Sprintf("%s held %d MiB, the limit is %d", service.name, life.most.rss>>20, limit>>20))
		}
	}
	if full := r.purged(ctx); full != "" {
		result.fail("queue", "not purged after "+purgedAfter.String()+": "+full)
	}
}

// grown describes what the last third of a life held more of than the second. fds
// is how many more file descriptors are allowed.
func (u *usage) grown(moreFDs int64) []string {
	if u.since < soakLife || len(u.all) < 6 {
		return nil
	}
	third := len(u.all) / 3
	early, late := mostOf(u.all[third:2*third]), mostOf(u.all[2*third:])
	var growth []string
	for _, held := range []struct {
		name              string
		early, late, more int64
	}{
		{"file descriptors", int64(early.fds), int64(late.fds), moreFDs},
		{"goroutines", int64(early.goroutines), int64(late.goroutines), moreGoroutines},
		{"bytes of memory", early.rss, late.rss, moreMemory},
	} {
		if held.late > held.early+held.early/4+held.more {
			growth = append(growth, fmt.Sprintf("%d, then %d %s", held.early, held.late, held.name))
		}
	}
	return growth
}

func mostOf(samples []sample) (most sample) {
	for _, s := range samples {
		most = most.or(s)
	}
	return most
}

// purged waits until every stream holds no more than its replay window; otherwise
// it returns one that does.
func (r *run) purged(ctx context.Context) (full string) {
	ctx, cancel := context.WithTimeout(ctx, purgedAfter)
	defer cancel()
	topology := r.queue.topology
	names := slices.Concat(topology.Streams(record.KindLog), topology.Streams(record.KindEvent))
	for {
		full = fullOf(ctx, topology, names)
		if full == "" || pause(ctx, time.Second) != nil {
			return full
		}
	}
}

func fullOf(ctx context.Context, topology *stream.Topology, names []string) string {
	for _, name := range names {
		info, err := topology.Info(ctx, name)
		if err != nil {
			return err.Error()
		}
		if int64(info.Bytes) > info.MaxBytes/100*queueShare {
			return fmt.Sprintf("stream %s holds %d of %d bytes", name, info.Bytes, info.MaxBytes)
		}
	}
	return ""
}
