//go:build !failpoint

package writer

// failpoints are not in this build.
type failpoints struct{}

func newFailpoints() failpoints { return failpoints{} }

func (failpoints) hit(point) error { return nil }

func (failpoints) queue(q Queue) Queue { return q }

func (failpoints) source(s source) source { return s }
