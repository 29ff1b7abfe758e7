package chdb

import (
	"errors"
	"io"
	"runtime"
	"unsafe"
)

// Conn is one connection with a session of its own: its settings, its current
// database and its temporary tables. It runs one statement at a time. Its
// methods must not be called concurrently.
type Conn struct {
	lib    *Library
	handle unsafe.Pointer // chdb_connection *, dereferenced for every query
}

// Param is one bound parameter. The value is text, escaped as ClickHouse does.
type Param struct {
	Name, Value string
}

// raw is the handle that the query functions expect.
func (c *Conn) raw() unsafe.Pointer { return *(*unsafe.Pointer)(c.handle) }

// Close ends the connection. Closing the last connection of the process stops
// the engine.
func (c *Conn) Close() {
	c.lib.closeConn(c.handle)
	c.handle = nil
}

// Exec runs a statement and discards its result.
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

// The engine's classes. Control covers SET, USE, SYSTEM, KILL and all other
// statements that do not concern data.
const (
	ReadOnly Class = iota
	Mutating
	MutatingGlobal
	Control
	Unknown
)

// Classify parses the text without running it. It returns the number of
// statements and the highest class among them. For a text that does not parse
// it returns 0 and Unknown.
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

// Stream is a running query whose result arrives in separately formatted pieces.
// The caller must call Close.
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

// Close cancels the query if it is still running and frees the handle.
func (s *Stream) Close() {
	if !s.ended {
		s.conn.lib.streamStop(s.conn.raw(), s.handle)
		s.ended = true
	}
	s.conn.lib.resultDestroy(s.handle)
}

// call passes the strings to a C function and pins their memory meanwhile.
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

// pinned returns a pinned copy of s for C. The pointer is never null, because an
// empty parameter needs an address too.
func pinned(pin *runtime.Pinner, s string) (unsafe.Pointer, uintptr) {
	b := append([]byte(s), 0)
	pin.Pin(&b[0])
	return unsafe.Pointer(&b[0]), uintptr(len(s))
}

// errConnect contains no reason, because the engine only logs it.
var errConnect = errors.New("the engine refused the connection; the log lines before this one contain its reason")
