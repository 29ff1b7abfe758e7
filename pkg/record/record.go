// Package record defines logs and events, and their bytes on the queue.
//
// It stands between decode, which fills records from HTTP bodies, and the writer,
// which turns them into rows. A newcomer's usual mistake is to keep a record's
// strings: a decoded record borrows them from the buffer that it was decoded from,
// and they are valid only as long as that buffer.
package record

// Kind is what a section, a stream or a table holds. The values are part of the
// queue's format.
type Kind uint8

// The kinds of record.
const (
	KindLog   Kind = 1
	KindEvent Kind = 2
	KindDrop  Kind = 3 // counts of refused records; they travel on the streams of logs
)

// String returns "logs", "events" or "drops": the word in subjects, table names
// and metrics.
func (k Kind) String() string {
	switch k {
	case KindLog:
		return "logs"
	case KindEvent:
		return "events"
	case KindDrop:
		return "drops"
	}
	return "unknown"
}

// Pair is one key with its value, of a log's metadata or an event's tags.
type Pair struct {
	Key, Value string
}

// Log is one log entry.
type Log struct {
	Timestamp      int64 // Unix nanoseconds, UTC
	Application    string
	SeverityNumber uint8  // OpenTelemetry's 1 to 24; 0 where it is unknown
	Severity       string // the client's own word
	Data           string // the line itself, valid UTF-8
	Metadata       []Pair // unique keys, in the client's order
	Host           string
	Source         string
}

// Size returns the number of bytes of text in the log. Quotas and the limit on one
// record count these.
func (l *Log) Size() int {
	return len(l.Application) + len(l.Severity) + len(l.Data) + len(l.Host) + len(l.Source) + pairsSize(l.Metadata)
}

// Event is one notable event.
type Event struct {
	Timestamp   int64 // Unix nanoseconds, UTC
	Channel     string
	Title       string
	Description string
	Icon        string // one emoji or a :short_code:
	Notify      bool   // send it to the project's chat
	Tags        []Pair // unique keys, in the client's order
}

// Size returns the number of bytes of text in the event.
func (e *Event) Size() int {
	return len(e.Channel) + len(e.Title) + len(e.Description) + len(e.Icon) + pairsSize(e.Tags)
}

func pairsSize(pairs []Pair) int {
	n := 0
	for i := range pairs {
		n += len(pairs[i].Key) + len(pairs[i].Value)
	}
	return n
}
