package writer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

// rows is the batch in hand as ClickHouse will get it: a block of logs or of
// events, and what each project used.
//
// Rows are a pure function of the messages: no clock, no random number and no
// look-up comes into them, so that the same range always makes the same rows.
type rows struct {
	kind   stream.Kind
	stream string
	shard  uint8
	reader record.Reader
	logs   clickhouse.LogBlock
	events clickhouse.EventBlock
	log    record.Log
	event  record.Event
	usage  usage
}

func newRows(kind stream.Kind, name string, shard uint8) *rows {
	return &rows{kind: kind, stream: name, shard: shard, usage: usage{}}
}

func (r *rows) reset() {
	r.logs.Reset()
	r.events.Reset()
	clear(r.usage)
}

func (r *rows) len() int { return r.logs.Rows() + r.events.Rows() }

// add appends a message's rows and tells how many bytes of text they hold.
// After an error the rows are spoilt: a part of the message may be in them.
func (r *rows) add(delivery stream.Delivery) (bytes int, err error) {
	r.reader.Reset(delivery.Data)
	at := clickhouse.Row{Shard: r.shard, Seq: delivery.Seq, Received: delivery.Time.UnixNano()}
	for {
		section, err := r.reader.NextSection()
		if errors.Is(err, io.EOF) {
			return bytes, nil
		}
		if err != nil {
			return bytes, err
		}
		if section.Kind != r.recordKind() {
			return bytes, fmt.Errorf("a section of kind %s on a stream of %s", section.Kind, r.kind)
		}
		at.Project, at.RetentionDays = section.Project, section.RetentionDays
		size, err := r.addSection(&at, section)
		if err != nil {
			return bytes, err
		}
		bytes += size
		r.usage.count(usageKey{section.Project, hour(delivery.Time)}, section.Rows, size)
	}
}

func (r *rows) recordKind() record.Kind {
	if r.kind == stream.Events {
		return record.KindEvent
	}
	return record.KindLog
}

// addSection appends a section's rows; at.Idx goes on from section to section.
func (r *rows) addSection(at *clickhouse.Row, section *record.Section) (bytes int, err error) {
	for {
		size, ok, err := r.addNext(at, section)
		if err != nil || !ok {
			return bytes, err
		}
		bytes += size
		at.Idx++
	}
}

func (r *rows) addNext(at *clickhouse.Row, section *record.Section) (size int, ok bool, err error) {
	if r.kind == stream.Events {
		if ok, err = section.NextEvent(&r.event); ok {
			r.events.Append(*at, &r.event)
		}
		return r.event.Size(), ok, err
	}
	if ok, err = section.NextLog(&r.log); ok {
		r.logs.Append(*at, &r.log)
	}
	return r.log.Size(), ok, err
}

// insert sends the rows, then the usage, each under the token: what an earlier
// try has stored is not stored again. from is the batch's first sequence.
func (r *rows) insert(ctx context.Context, sink Sink, token string, from uint64) error {
	if r.logs.Rows() > 0 {
		if err := sink.InsertLogs(ctx, token, &r.logs); err != nil {
			return err
		}
	}
	if r.events.Rows() > 0 {
		if err := sink.InsertEvents(ctx, token, &r.events); err != nil {
			return err
		}
	}
	return sink.InsertUsage(ctx, token, r.usageRows(from))
}

func (r *rows) usageRows(from uint64) []clickhouse.UsageRow {
	rows := make([]clickhouse.UsageRow, 0, len(r.usage))
	for key, t := range r.usage {
		rows = append(rows, clickhouse.UsageRow{
			Project: key.project,
			Hour:    time.Unix(key.hour, 0).UTC(),
			Measure: r.kind.String(),
			Records: t.records,
			Bytes:   t.bytes,
			Stream:  r.stream,
			Seq:     from,
		})
	}
	slices.SortFunc(rows, func(a, b clickhouse.UsageRow) int { // one order, or a repeated block would differ
		return cmp.Or(cmp.Compare(a.Project, b.Project), a.Hour.Compare(b.Hour))
	})
	return rows
}

// usageKey is what usage is rolled up by.
type usageKey struct {
	project string
	hour    int64 // Unix seconds of its begin
}

// usage is what projects stored in the batch in hand, by hour of receipt.
type usage map[usageKey]*tally

type tally struct {
	records, bytes uint64
}

func (u usage) count(key usageKey, records, bytes int) {
	t := u[key]
	if t == nil {
		t = &tally{}
		key.project = strings.Clone(key.project) // the section's text is borrowed
		u[key] = t
	}
	t.records += uint64(records)
	t.bytes += uint64(bytes)
}

func hour(t time.Time) int64 { return t.Unix() - t.Unix()%3600 }
