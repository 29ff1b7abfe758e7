package clickhouse

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/logboom/logboom/pkg/record"
)

// StoredLog is a log as the API shows it.
type StoredLog struct {
	ID             record.RowID      `json:"id"`
	Timestamp      time.Time         `json:"timestamp"`
	Application    string            `json:"application"`
	Severity       string            `json:"severity"`
	SeverityNumber uint8             `json:"severity_number"`
	Data           string            `json:"data"`
	Metadata       map[string]string `json:"metadata"`
	Host           string            `json:"host"`
	Source         string            `json:"source"`
}

// LogPage is one page of logs, newest first.
type LogPage struct {
	Logs []StoredLog `json:"logs"`
	Next string      `json:"next"` // cursor of the next page, "" when this is the last
}

// Logs reads one page. Errors are an *InvalidError for a query that cannot be
// answered, ErrTooExpensive for one that reads too much, or of the connection.
func (c *Client) Logs(ctx context.Context, q LogQuery) (LogPage, error) {
	logs, next, err := readPage[StoredLog](ctx, c, record.KindLog, q)
	return LogPage{Logs: logs, Next: next}, err
}

// scan reads the columns of sql/logs.sql.
func (l *StoredLog) scan(rows driver.Rows) error {
	return rows.Scan(&l.ID.Shard, &l.ID.Seq, &l.ID.Idx, &l.Timestamp, &l.Application, &l.Severity,
		&l.SeverityNumber, &l.Data, &l.Metadata, &l.Host, &l.Source)
}

func (l *StoredLog) position() position { return position{l.Timestamp.UnixNano(), l.ID} }

func (l *StoredLog) size() int { return len(l.Data) + mapSize(l.Metadata) }
