package native_test

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	chproto "github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/column"
	"github.com/ClickHouse/clickhouse-go/v2/lib/proto"

	"github.com/logboom/logboom/pkg/embedded/engine/internal/native"
)

// revision is a protocol revision with both the block header and the extra byte
// of each column.
const revision = 54460

// block encodes a block with that many rows at revision 0.
func block(t testing.TB, rows int) []byte {
	t.Helper()
	b := proto.NewBlock()
	types := []column.Type{"UInt64", "LowCardinality(String)", "Map(LowCardinality(String), String)", "Nullable(String)", "Array(UInt8)", "DateTime64(9)"}
	for i, kind := range types {
		if err := b.AddColumn(string(rune('a'+i)), kind); err != nil {
			t.Fatal(err)
		}
	}
	for i := range rows {
		if err := b.Append(uint64(i), "lc", map[string]string{"k": "v"}, nil, []uint8{1, 2}, time.Unix(int64(i), 5)); err != nil {
			t.Fatal(err)
		}
	}
	if rows == 0 {
		return header(b)
	}
	var buffer chproto.Buffer
	if err := b.Encode(&buffer, 0); err != nil {
		t.Fatal(err)
	}
	return buffer.Buf
}

// header encodes a block without rows as the engine does: only names and types.
func header(b *proto.Block) []byte {
	var buffer chproto.Buffer
	buffer.PutUVarInt(uint64(len(b.Columns)))
	buffer.PutUVarInt(0)
	for _, c := range b.Columns {
		buffer.PutString(c.Name())
		buffer.PutString(string(c.Type()))
	}
	return buffer.Buf
}

func TestBlocksHaveTheSameContentAtTheNewRevision(t *testing.T) {
	t.Parallel()
	src := append(block(t, 3), block(t, 100)...)
	got, err := native.Append([]byte("before"), src, revision)
	if err != nil {
		t.Fatal(err)
	}
	got, ok := bytes.CutPrefix(got, []byte("before"))
	if !ok {
		t.Fatal("Append changed the bytes that dst already had")
	}
	reader, original := chproto.NewReader(bytes.NewReader(got)), chproto.NewReader(bytes.NewReader(src))
	for _, rows := range []int{3, 100} {
		have, want := proto.NewBlock(), proto.NewBlock()
		if err := have.Decode(reader, revision); err != nil {
			t.Fatal(err)
		}
		if err := want.Decode(original, 0); err != nil {
			t.Fatal(err)
		}
		if have.Rows() != rows || !reflect.DeepEqual(have.ColumnsNames(), want.ColumnsNames()) {
			t.Fatalf("%d rows with columns %v, want %d with %v", have.Rows(), have.ColumnsNames(), rows, want.ColumnsNames())
		}
		for c := range want.Columns {
			for row := range rows {
				if a, b := have.Columns[c].Row(row, false), want.Columns[c].Row(row, false); !reflect.DeepEqual(a, b) {
					t.Errorf("column %d, row %d: %v, want %v", c, row, a, b)
				}
			}
		}
	}
}

func TestBlockWithoutRowsKeepsItsColumns(t *testing.T) {
	t.Parallel()
	got, err := native.Append(nil, block(t, 0), revision)
	if err != nil {
		t.Fatal(err)
	}
	b := proto.NewBlock()
	reader := chproto.NewReader(bytes.NewReader(got))
	if err := b.Decode(reader, revision); err != nil {
		t.Fatal(err)
	}
	if len(b.Columns) != 6 || b.Rows() != 0 {
		t.Errorf("%d columns and %d rows, want 6 and none", len(b.Columns), b.Rows())
	}
	if _, err := reader.ReadByte(); err == nil {
		t.Error("there are bytes after the block")
	}
}

func TestBlocksAreUnchangedAtRevisionZero(t *testing.T) {
	t.Parallel()
	src := []byte("anything")
	if got, err := native.Append(nil, src, 0); err != nil || !bytes.Equal(got, src) {
		t.Errorf("%q, %v", got, err)
	}
}

func FuzzAppend(f *testing.F) {
	f.Add("", uint8(0))
	f.Add("\x00\xff", uint8(200))
	f.Fuzz(func(t *testing.T, text string, rows uint8) {
		b := proto.NewBlock()
		for _, kind := range []column.Type{"String", "LowCardinality(String)", "Array(String)"} {
			if err := b.AddColumn(text, kind); err != nil {
				t.Fatal(err)
			}
		}
		for range int(rows) + 1 {
			if err := b.Append(text, text, []string{text, ""}); err != nil {
				t.Fatal(err)
			}
		}
		var old, want chproto.Buffer
		if err := b.Encode(&old, 0); err != nil {
			t.Fatal(err)
		}
		if err := b.Encode(&want, revision); err != nil {
			t.Fatal(err)
		}
		if got, err := native.Append(nil, old.Buf, revision); err != nil || !bytes.Equal(got, want.Buf) {
			t.Fatalf("%d bytes, want %d, %v", len(got), len(want.Buf), err)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	for _, rows := range []int{1_000, 65_000} {
		src := block(b, rows)
		b.Run("rows="+map[int]string{1_000: "1k", 65_000: "65k"}[rows], func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			var dst []byte
			for b.Loop() {
				var err error
				if dst, err = native.Append(dst[:0], src, revision); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
