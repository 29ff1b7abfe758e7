package clickhouse

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"math"

	ch "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/logboom/logboom/pkg/record"
)

// position is a place in the order in which pages list rows. The row's id
// makes it exact: rows with equal timestamps have an order too.
type position struct {
	time int64 // Unix nanoseconds
	id   record.RowID
}

// arguments are the parameters of a statement that begins at the place.
func (p position) arguments() []any {
	return []any{
		ch.Named("at_time", p.time),
		ch.Named("at_shard", p.id.Shard),
		ch.Named("at_seq", p.id.Seq),
		ch.Named("at_idx", p.id.Idx),
	}
}

// beforeAll is the place that every row comes after, the newest first.
var beforeAll = position{math.MaxInt64, record.RowID{Shard: math.MaxUint8, Seq: math.MaxUint64, Idx: math.MaxUint32}}

const (
	cursorVersion = 1
	cursorBytes   = 1 + 8 + 1 + 8 + 4 + 8 // version, time, shard, seq, idx, seal
)

// cursor writes the place of a page's last row, sealed for the list it belongs
// to. The seal is no secret: it catches a cursor that was cut, changed or taken
// from another list, whose page would be wrong without anybody noticing.
func cursor(kind record.Kind, project string, p position) string {
	raw := make([]byte, 0, cursorBytes)
	raw = append(raw, cursorVersion)
	raw = binary.BigEndian.AppendUint64(raw, uint64(p.time))
	raw = append(raw, p.id.Shard)
	raw = binary.BigEndian.AppendUint64(raw, p.id.Seq)
	raw = binary.BigEndian.AppendUint32(raw, p.id.Idx)
	raw = binary.BigEndian.AppendUint64(raw, seal(kind, project, raw))
	return base64.RawURLEncoding.EncodeToString(raw)
}

// parseCursor reads what cursor wrote for the same list; "" is the first page.
func parseCursor(kind record.Kind, project, text string) (position, error) {
	if text == "" {
		return beforeAll, nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	// The text's length, since the decoder passes over line ends.
	if err != nil || len(raw) != cursorBytes || len(text) != base64.RawURLEncoding.EncodedLen(cursorBytes) || raw[0] != cursorVersion {
		return position{}, &InvalidError{"cursor", "not one of ours, take it from the answer's next"}
	}
	body := raw[:cursorBytes-8]
	if binary.BigEndian.Uint64(raw[len(body):]) != seal(kind, project, body) {
		return position{}, &InvalidError{"cursor", "of another list, start again without one"}
	}
	return position{
		time: int64(binary.BigEndian.Uint64(raw[1:])),
		id: record.RowID{
			Shard: raw[9],
			Seq:   binary.BigEndian.Uint64(raw[10:]),
			Idx:   binary.BigEndian.Uint32(raw[18:]),
		},
	}, nil
}

func seal(kind record.Kind, project string, body []byte) uint64 {
	hash := fnv.New64a()
	hash.Write([]byte{byte(kind)})
	hash.Write([]byte(project))
	hash.Write([]byte{0})
	hash.Write(body)
	return hash.Sum64()
}
