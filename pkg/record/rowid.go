package record

import (
	"fmt"
	"strconv"
	"strings"
)

// RowID identifies the row of a record by the record's place on the queue: the
// shard's stream, the sequence of the message and the index in it. Logs and events
// have streams of their own, so a log and an event may have the same RowID.
type RowID struct {
	Shard uint8
	Seq   uint64
	Idx   uint32
}

// String returns the ID as the API shows it: <shard>-<seq>-<idx>, in decimal.
func (id RowID) String() string {
	text := make([]byte, 0, 36) // 3 + 20 + 10 digits and two dashes
	text = strconv.AppendUint(text, uint64(id.Shard), 10)
	text = append(text, '-')
	text = strconv.AppendUint(text, id.Seq, 10)
	text = append(text, '-')
	text = strconv.AppendUint(text, uint64(id.Idx), 10)
	return string(text)
}

// MarshalText returns String, so that the ID is a string in JSON.
func (id RowID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// ParseRowID parses what String returns and nothing else: each row has one
// spelling.
func ParseRowID(text string) (RowID, error) {
	shard, rest, _ := strings.Cut(text, "-")
	seq, idx, _ := strings.Cut(rest, "-")
	s, errShard := strconv.ParseUint(shard, 10, 8)
	q, errSeq := strconv.ParseUint(seq, 10, 64)
	i, errIdx := strconv.ParseUint(idx, 10, 32)
	id := RowID{Shard: uint8(s), Seq: q, Idx: uint32(i)}
	if errShard != nil || errSeq != nil || errIdx != nil || id.String() != text {
		return RowID{}, fmt.Errorf("id: %.40q is not valid, want <shard>-<sequence>-<position> such as 2-1048576-17", text)
	}
	return id, nil
}
