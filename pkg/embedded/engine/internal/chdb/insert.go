package chdb

import (
	"errors"
	"runtime"
	"unsafe"
)

// Insert is an open INSERT. The caller must call either Commit or Cancel. Until
// then the connection runs no other statement.
type Insert struct {
	conn   *Conn
	handle unsafe.Pointer
}

// Insert starts an INSERT whose rows follow in the given format. The statement
// must contain neither a FORMAT clause nor rows.
func (c *Conn) Insert(sql, format string, params []Param) (*Insert, error) {
	handle := c.call(c.lib.insert, sql, format, params)
	if text := c.lib.insertError(handle); text != "" {
		c.lib.insertDestroy(handle)
		return nil, parseError(text)
	}
	return &Insert{conn: c, handle: handle}, nil
}

// Append sends the next bytes to the engine, which copies them. It blocks while
// the engine cannot accept more.
func (i *Insert) Append(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&data[0])
	if i.conn.lib.insertAppend(i.handle, unsafe.Pointer(&data[0]), uintptr(len(data))) == 0 {
		return nil
	}
	if text := i.conn.lib.insertError(i.handle); text != "" {
		return parseError(text)
	}
	return errors.New("the engine ended the insert before all data was sent")
}

// Commit completes the data, waits until the rows are stored and frees the
// handle.
func (i *Insert) Commit() (Progress, error) {
	defer i.conn.lib.insertDestroy(i.handle)
	result, err := i.conn.lib.result(i.conn.lib.insertDone(i.handle))
	if err != nil {
		return Progress{}, err
	}
	defer result.Close()
	return result.Progress(), nil
}

// Cancel discards the rows that the engine has not stored yet and frees the
// handle.
func (i *Insert) Cancel() {
	i.conn.lib.insertCancel(i.handle)
	i.conn.lib.insertDestroy(i.handle)
}
