package chdb

import (
	"errors"
	"io"
	"runtime"
	"unsafe"
)

// Conn is one connection, a session of its own: settings, current database and
// temporary tables belong to it. It runs one statement at a time, and its
// methods must not be called at the same time.
type Conn struct {
	lib    *Library
	handle unsafe.Pointer // chdb_connection *, dereferenced for every query
}

// Param is one bound parameter; the value is text in ClickHouse's escaped form.
type Param struct {
	Name, Value string
}

// raw is the handle that the query functions take.
func (c *Conn) raw() unsafe.Pointer { return *(*unsafe.Pointer)(c.handle) }

// Close ends the connection. The last one of the process to close stops the
// engine.
func (c *Conn) Close() {
	c.lib.closeConn(c.handle)
	c.handle = nil
}

// Exec runs a statement whose result does not matter.
func (c *Conn) Exec(sql string) error {
	result, err := c.Query(sql, "Null", nil)
	if err != nil {
		return err
	}
	result.Close()
	return nil
}

// Query runs a statement to its end and returns the whole result.
func (c *Conn) Query(sql, format string, params []Param) (*Result, error) {
	return c.lib.result(c.call(c.lib.query, sql, format, params))
}

// Class orders statements by what they change.
type Class uint32

// The classes that the engine knows. Control covers SET, USE, SYSTEM, KILL and
// whatever else is not about data.
const (
	ReadOnly Class = iota
	Mutating
	MutatingGlobal
	Control
	Unknown
)

// Classify parses the text without running it and says how many statements it
// holds and what the strongest of them does. A text that does not parse holds
// none and is Unknown.
func (c *Conn) Classify(sql string) (statements int, class Class) {
	out := [4]uint32{0: 16} // struct_size, statement_count, flags, query_class
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&out)
	text, n := pinned(&pin, sql)
	if c.lib.classify(c.raw(), text, n, nil, 0, unsafe.Pointer(&out)) != 0 {
		return 0, Unknown
	}
	return int(out[1]), Class(out[3])
}

// Stream is a running query whose result arrives in pieces, each formatted by
// itself. Close must be called in the end.
type Stream struct {
	conn   *Conn
	handle unsafe.Pointer
	ended  bool
}

// Stream starts a query. Only statements that return rows can stream.
func (c *Conn) Stream(sql, format string, params []Param) (*Stream, error) {
	handle := c.call(c.lib.streamQuery, sql, format, params)
	if text := c.lib.resultError(handle); text != "" {
		c.lib.resultDestroy(handle)
		return nil, parseError(text)
	}
	return &Stream{conn: c, handle: handle}, nil
}

// Next waits for the next piece, or returns io.EOF after the last.
func (s *Stream) Next() (*Result, error) {
	if s.ended {
		return nil, io.EOF
	}
	result, err := s.conn.lib.result(s.conn.lib.streamFetch(s.conn.raw(), s.handle))
	if err == nil && len(result.Bytes()) == 0 {
		result.Close()
		result, err = nil, io.EOF
	}
	s.ended = err != nil
	return result, err
}

// Close cancels what still runs and frees the handle.
func (s *Stream) Close() {
	if !s.ended {
		s.conn.lib.streamStop(s.conn.raw(), s.handle)
		s.ended = true
	}
	s.conn.lib.resultDestroy(s.handle)
}

// call lays the strings out for the C side and keeps them in place meanwhile.
func (c *Conn) call(fn paramCall, sql, format string, params []Param) unsafe.Pointer {
	var pin runtime.Pinner
	defer pin.Unpin()
	names, nameLens := make([]unsafe.Pointer, len(params)+1), make([]uintptr, len(params)+1)
	values, valueLens := make([]unsafe.Pointer, len(params)+1), make([]uintptr, len(params)+1)
	for i, p := range params {
		names[i], nameLens[i] = pinned(&pin, p.Name)
		values[i], valueLens[i] = pinned(&pin, p.Value)
	}
	pin.Pin(&names[0])
	pin.Pin(&nameLens[0])
	pin.Pin(&values[0])
	pin.Pin(&valueLens[0])
	sqlText, sqlLen := pinned(&pin, sql)
	formatText, formatLen := pinned(&pin, format)
	return fn(c.raw(), sqlText, sqlLen, formatText, formatLen,
		unsafe.Pointer(&names[0]), unsafe.Pointer(&nameLens[0]),
		unsafe.Pointer(&values[0]), unsafe.Pointer(&valueLens[0]), uintptr(len(params)))
}

// pinned returns a copy of s as the C side wants it: never null, because an
// empty parameter needs an address too.
func pinned(pin *runtime.Pinner, s string) (unsafe.Pointer, uintptr) {
	b := append([]byte(s), 0)
	pin.Pin(&b[0])
	return unsafe.Pointer(&b[0]), uintptr(len(s))
}

// errConnect carries no reason: the engine writes it to its log alone.
var errConnect = errors.New("the engine refused the connection; its reason is in the lines before")
