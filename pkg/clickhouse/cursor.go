package clickhouse

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"

	"github.com/logboom/logboom/pkg/record"
)

const (
	cursorVersion = 1
	notCursor     = "it is not a cursor; copy it from the field next of a page"
)

// sealCursor returns a place in a list as a cursor. The seal is not a secret: it
// detects a cursor that was cut, changed or taken from another list, whose page
// would silently be wrong.
func sealCursor(list, project string, place []byte) string {
	raw := binary.BigEndian.AppendUint64([]byte{cursorVersion}, seal(list, project, place))
	return base64.RawURLEncoding.EncodeToString(append(raw, place...))
}

// openCursor returns the place that sealCursor wrote for the same list.
func openCursor(list, project, text string) ([]byte, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	// The decoder ignores line ends; the length of the text shows them.
	if err != nil || len(text) != base64.RawURLEncoding.EncodedLen(len(raw)) || len(raw) < 9 || raw[0] != cursorVersion {
		return nil, &InvalidError{"cursor", notCursor}
	}
	if place := raw[9:]; binary.BigEndian.Uint64(raw[1:]) == seal(list, project, place) {
		return place, nil
	}
	return nil, &InvalidError{"cursor", "it belongs to another list; start without a cursor"}
}

func seal(list, project string, place []byte) uint64 {
	hash := fnv.New64a()
	for _, part := range []string{list, "\x00", project, "\x00", string(place)} {
		hash.Write([]byte(part))
	}
	return hash.Sum64()
}

// cursor returns the position of a page's last row as a cursor.
func cursor(kind record.Kind, project string, p position) string {
	place := binary.BigEndian.AppendUint64(nil, uint64(p.time))
	place = append(place, p.id.Shard)
	place = binary.BigEndian.AppendUint64(place, p.id.Seq)
	place = binary.BigEndian.AppendUint32(place, p.id.Idx)
	return sealCursor(kind.String(), project, place)
}

// parseCursor returns the position that cursor wrote for the same list. The
// cursor "" is the first page's.
func parseCursor(kind record.Kind, project, text string) (position, error) {
	if text == "" {
		return newest, nil
	}
	place, err := openCursor(kind.String(), project, text)
	if err != nil {
		return position{}, err
	}
	if len(place) != 8+1+8+4 {
		return position{}, &InvalidError{"cursor", notCursor}
	}
	return position{
		time: int64(binary.BigEndian.Uint64(place)),
		id:   record.RowID{Shard: place[8], Seq: binary.BigEndian.Uint64(place[9:]), Idx: binary.BigEndian.Uint32(place[17:])},
	}, nil
}
