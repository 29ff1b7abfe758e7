package chdb

import "unsafe"

// Result is the result of a statement, or a piece of a streamed result.
type Result struct {
	lib    *Library
	handle unsafe.Pointer
}

// Progress counts what a statement read and wrote.
type Progress struct {
	ReadRows, ReadBytes       uint64
	WrittenRows, WrittenBytes uint64
	ResultRows, ResultBytes   uint64
}

// Add adds the counts of another part of the same statement.
func (p *Progress) Add(q Progress) {
	p.ReadRows += q.ReadRows
	p.ReadBytes += q.ReadBytes
	p.WrittenRows += q.WrittenRows
	p.WrittenBytes += q.WrittenBytes
	p.ResultRows += q.ResultRows
	p.ResultBytes += q.ResultBytes
}

// result returns the handle's result, which the caller must close, or the
// engine's error.
func (l *Library) result(handle unsafe.Pointer) (*Result, error) {
	if text := l.resultError(handle); text != "" {
		l.resultDestroy(handle)
		return nil, parseError(text)
	}
	return &Result{lib: l, handle: handle}, nil
}

// Bytes is the formatted result in the engine's memory, valid until Close.
func (r *Result) Bytes() []byte {
	n := r.lib.resultLength(r.handle)
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(r.lib.resultBuffer(r.handle)), n)
}

// Progress counts what the statement did for this result.
func (r *Result) Progress() Progress {
	return Progress{
		ReadRows:     r.lib.storageRowsRead(r.handle),
		ReadBytes:    r.lib.storageBytesRead(r.handle),
		WrittenRows:  r.lib.resultRowsWritten(r.handle),
		WrittenBytes: r.lib.resultBytesWritten(r.handle),
		ResultRows:   r.lib.resultRowsRead(r.handle),
		ResultBytes:  uint64(r.lib.resultLength(r.handle)),
	}
}

// Close frees the result's memory.
func (r *Result) Close() {
	r.lib.resultDestroy(r.handle)
	r.handle = nil
}
