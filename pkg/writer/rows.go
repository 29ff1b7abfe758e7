package writer

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

// rowsVersion is the version of the rules by which messages become rows. Raise
// it when the same message becomes different rows than before: then an intent of
// an older version must be finished by the old rules.
const rowsVersion = 1

// expiryMargin is how far the clock of ClickHouse may be ahead of ours.
const expiryMargin = time.Hour

// rows is the batch as ClickHouse will get it: for each partition a block of
// logs or of events, and what each project used.
//
// Rows are a pure function of the messages: no clock, no random number and no
// other read comes in, so that the same range always makes the same rows.
type rows struct {
	kind   record.Kind
	stream string
	shard  uint8
	parts  []*part // in the order of their first messages
	spare  []*part // emptied, and kept for their memory
	usage  usage

	reader record.Reader
	log    record.Log
	event  record.Event
	drop   record.Drop
}

// part is the rows of one partition.
type part struct {
	partition   string
	first, last uint64 // sequences of its messages
	logs        clickhouse.LogBlock
	events      clickhouse.EventBlock
	expiring    map[int64]uint64 // rows by the day, since 1970, on which their retention has passed
}

func newRows(kind record.Kind, name string, shard uint8) *rows {
	return &rows{kind: kind, stream: name, shard: shard, usage: usage{}}
}

func (r *rows) reset() {
	for _, p := range r.parts {
		p.logs.Reset()
		p.events.Reset()
		clear(p.expiring)
	}
	r.spare = append(r.spare, r.parts...)
	r.parts = r.parts[:0]
	clear(r.usage)
}

func (r *rows) len() int {
	total := 0
	for _, p := range r.parts {
		total += p.len()
	}
	return total
}

// want returns the number of rows by partition, without empty partitions.
func (r *rows) want() map[string]uint64 {
	want := make(map[string]uint64, len(r.parts))
	for _, p := range r.parts {
		if n := p.len(); n > 0 {
			want[p.partition] = uint64(n)
		}
	}
	return want
}

func (p *part) len() int { return p.logs.Rows() + p.events.Rows() }

// lasting returns how many of the rows ClickHouse must still have at that time,
// once it has stored them: rows whose retention has passed may go with any merge.
func (p *part) lasting(now time.Time) uint64 {
	lasting, today := uint64(p.len()), day(now.Add(expiryMargin))
	for on, n := range p.expiring {
		if on <= today {
			lasting -= n
		}
	}
	return lasting
}

// partOf returns the part for a message, by when the queue received it.
func (r *rows) partOf(delivery stream.Delivery) *part {
	partition := clickhouse.Partition(delivery.Time.UnixNano())
	for _, p := range r.parts {
		if p.partition == partition {
			p.last = delivery.Seq
			return p
		}
	}
	p := &part{expiring: map[int64]uint64{}}
	if n := len(r.spare); n > 0 {
		p, r.spare = r.spare[n-1], r.spare[:n-1]
	}
	p.partition, p.first, p.last = partition, delivery.Seq, delivery.Seq
	r.parts = append(r.parts, p)
	return p
}

// add appends a message's rows and returns how many bytes of text they hold.
// After an error the batch cannot be used: a part of the message may be in it.
func (r *rows) add(delivery stream.Delivery) (bytes int, err error) {
	r.reader.Reset(delivery.Data)
	p := r.partOf(delivery)
	at := clickhouse.Row{Shard: r.shard, Seq: delivery.Seq, Received: delivery.Time.UnixNano()}
	for {
		section, err := r.reader.NextSection()
		if errors.Is(err, io.EOF) {
			return bytes, nil
		}
		if err != nil {
			return bytes, err
		}
		at.Project, at.RetentionDays = section.Project, section.RetentionDays
		size, err := r.addSection(p, &at, section)
		if err != nil {
			return bytes, err
		}
		bytes += size
	}
}

// addSection appends a section's rows, or counts its refused records. at.Idx
// continues from section to section.
func (r *rows) addSection(p *part, at *clickhouse.Row, section *record.Section) (bytes int, err error) {
	switch {
	case section.Kind == record.KindDrop && r.kind == record.KindLog:
		return 0, r.addDrops(section)
	case section.Kind != r.kind:
		return 0, fmt.Errorf("a section of kind %s on a stream of %s", section.Kind, r.kind)
	}
	for {
		size, ok, err := r.addNext(p, at, section)
		if err != nil {
			return bytes, err
		}
		if !ok {
			break
		}
		bytes += size
		at.Idx++
	}
	if at.RetentionDays != 0 {
		p.expiring[day(time.Unix(0, at.Received))+1+int64(at.RetentionDays)] += uint64(section.Rows)
	}
	key := usageKey{project: section.Project, hour: hour(at.Received), measure: r.kind.String()}
	r.usage.add(key, uint64(section.Rows), uint64(bytes))
	return bytes, nil
}

func (r *rows) addNext(p *part, at *clickhouse.Row, section *record.Section) (size int, ok bool, err error) {
	if r.kind == record.KindEvent {
		if ok, err = section.NextEvent(&r.event); ok {
			p.events.Append(*at, &r.event)
		}
		return r.event.Size(), ok, err
	}
	if ok, err = section.NextLog(&r.log); ok {
		p.logs.Append(*at, &r.log)
	}
	return r.log.Size(), ok, err
}

// addDrops counts refused records, which have usage but no rows.
func (r *rows) addDrops(section *record.Section) error {
	for {
		ok, err := section.NextDrop(&r.drop)
		if err != nil || !ok {
			return err
		}
		key := usageKey{project: section.Project, hour: hour(r.drop.Time), measure: measureDropped, reason: r.drop.Reason}
		r.usage.add(key, r.drop.Records, r.drop.Bytes)
	}
}

// pick returns the parts of these partitions.
func (r *rows) pick(partitions []string) []*part {
	picked := make([]*part, 0, len(partitions))
	for _, p := range r.parts {
		if slices.Contains(partitions, p.partition) {
			picked = append(picked, p)
		}
	}
	return picked
}

// day returns the partition of what was received at the time, in days since 1970.
func day(t time.Time) int64 { return t.Unix() / 86_400 }
