package clickhouse

import "github.com/logboom/logboom/pkg/record"

// Row says where a record came from and how long it is kept. The row depends on
// it and on the record alone: no clock and no random number comes in.
type Row struct {
	Shard    uint8
	Seq      uint64 // sequence of the message in the shard's stream
	Idx      uint32 // position of the record in the message
	Received int64  // when the queue received the message, Unix nanoseconds

	Project       string // the project's id
	RetentionDays uint16 // 0 keeps the row forever
}

// origin holds the columns that rows of every kind have.
type origin struct {
	project   words
	retention fixed
	shard     fixed
	seq       fixed
	idx       fixed
	received  fixed
	rows      int
}

func (o *origin) append(r Row) {
	o.project.append(r.Project)
	o.retention.append16(r.RetentionDays)
	o.shard.append8(r.Shard)
	o.seq.append64(r.Seq)
	o.idx.append32(r.Idx)
	o.received.append64(uint64(r.Received))
	o.rows++
}

func (o *origin) fields() []field {
	return []field{
		{"project", lowCardinality, &o.project},
		{"retention_days", "UInt16", &o.retention},
		{"_shard", "UInt8", &o.shard},
		{"_seq", "UInt64", &o.seq},
		{"_idx", "UInt32", &o.idx},
		{"_recv", dateTime, &o.received},
	}
}

// LogBlock gathers logs for one insert. The zero value is an empty block; Reset
// empties it and keeps its memory. It is not safe for concurrent use.
type LogBlock struct {
	origin         origin
	timestamp      fixed
	application    words
	severity       words
	severityNumber fixed
	data           text
	metadata       pairs
	host           words
	source         words
}

// Append adds one row. It copies what l borrows.
func (b *LogBlock) Append(r Row, l *record.Log) {
	b.origin.append(r)
	b.timestamp.append64(uint64(l.Timestamp))
	b.application.append(l.Application)
	b.severity.append(l.Severity)
	b.severityNumber.append8(l.SeverityNumber)
	b.data.append(l.Data)
	b.metadata.append(l.Metadata)
	b.host.append(l.Host)
	b.source.append(l.Source)
}

// Rows returns the number of rows appended since the last Reset.
func (b *LogBlock) Rows() int { return b.origin.rows }

// Reset empties the block.
func (b *LogBlock) Reset() {
	for _, f := range b.fields() {
		f.column.reset()
	}
	b.origin.rows = 0
}

func (b *LogBlock) fields() []field {
	return append(b.origin.fields(),
		field{"timestamp", dateTime, &b.timestamp},
		field{"application", lowCardinality, &b.application},
		field{"severity", lowCardinality, &b.severity},
		field{"severity_number", "UInt8", &b.severityNumber},
		field{"data", "String", &b.data},
		field{"metadata", stringMap, &b.metadata},
		field{"host", lowCardinality, &b.host},
		field{"source", lowCardinality, &b.source},
	)
}

// EventBlock gathers events for one insert, as LogBlock gathers logs.
type EventBlock struct {
	origin      origin
	timestamp   fixed
	channel     words
	title       text
	description text
	icon        words
	notify      fixed
	tags        pairs
}

// Append adds one row. It copies what e borrows.
func (b *EventBlock) Append(r Row, e *record.Event) {
	b.origin.append(r)
	b.timestamp.append64(uint64(e.Timestamp))
	b.channel.append(e.Channel)
	b.title.append(e.Title)
	b.description.append(e.Description)
	b.icon.append(e.Icon)
	notify := uint8(0)
	if e.Notify {
		notify = 1
	}
	b.notify.append8(notify)
	b.tags.append(e.Tags)
}

// Rows returns the number of rows appended since the last Reset.
func (b *EventBlock) Rows() int { return b.origin.rows }

// Reset empties the block.
func (b *EventBlock) Reset() {
	for _, f := range b.fields() {
		f.column.reset()
	}
	b.origin.rows = 0
}

func (b *EventBlock) fields() []field {
	return append(b.origin.fields(),
		field{"timestamp", dateTime, &b.timestamp},
		field{"channel", lowCardinality, &b.channel},
		field{"title", "String", &b.title},
		field{"description", "String", &b.description},
		field{"icon", lowCardinality, &b.icon},
		field{"notify", "Bool", &b.notify},
		field{"tags", stringMap, &b.tags},
	)
}
