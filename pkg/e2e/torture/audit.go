//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// auditWithin bounds the wait for an audit: the leases of the writers that were
// killed, and an audit that is repeated before it reports something.
const auditWithin = 10 * time.Minute

// auditReport is what the writers' own audit reports, over all streams.
type auditReport struct {
	made                              bool
	missing, doubled, ahead, setAside float64
}

// String implements fmt.Stringer.
func (a auditReport) String() string {
	return fmt.Sprintf("%.0f rows missing, %.0f doubled, %.0f messages ahead, %.0f parts set aside", a.missing, a.doubled, a.ahead, a.setAside)
}

// awaitAudit restarts the writers, since the one that takes the first shard
// audits at once, and waits for the result.
func (r *run) awaitAudit(ctx context.Context) (auditReport, error) {
	for _, writer := range r.system.writers {
		if _, err := writer.restartWith(ctx); err != nil {
			return auditReport{}, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, auditWithin)
	defer cancel()
	for {
		for _, writer := range r.system.writers {
			if report, err := r.readAudit(ctx, writer); err == nil && report.made {
				return report, nil
			}
		}
		if pause(ctx, time.Second) != nil {
			return auditReport{}, errors.New("no writer has made an audit within " + auditWithin.String())
		}
	}
}

// readAudit reads the result from a writer's metrics.
func (r *run) readAudit(ctx context.Context, writer *service) (auditReport, error) {
	values, err := scrape(ctx, r.sampler.client, writer.ops)
	var a auditReport
	for name, value := range values {
		metric, labels, _ := strings.Cut(strings.TrimPrefix(name, "logboom_writer_"), "{")
		switch metric {
		case "audits_total":
			a.made = a.made || value > 0 && !strings.Contains(labels, "failed")
		case "audit_missing_rows":
			a.missing += value
		case "audit_doubled_rows":
			a.doubled += value
		case "audit_ahead_messages":
			a.ahead += value
		case "parts_set_aside":
			a.setAside = value
		}
	}
	return a, err
}

// judgeAudit compares what the audit reports with what the oracle found. Where
// ClickHouse's disk fails, rows may be lost or doubled if the audit reports as
// many; everywhere else the audit must report nothing.
func (r *report) judgeAudit(a auditReport, damages bool) {
	if !damages {
		if a.missing+a.doubled+a.ahead+a.setAside > 0 {
			r.fail("audit", "false alarm: "+a.String())
		}
		return
	}
	if a.ahead > 0 {
		r.fail("audit", a.String())
	}
	for sort, reported := range map[string]float64{lost: a.missing, doubled: a.doubled} {
		if n := r.verdict.found[sort]; n > 0 && float64(n) <= reported {
			r.reported[sort] = n
			delete(r.verdict.found, sort)
			delete(r.verdict.examples, sort)
		}
	}
	if len(r.verdict.found) > 0 {
		r.fail("audit", "it did not report everything: "+a.String())
	}
}
