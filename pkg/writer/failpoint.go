package writer

// point names a place in a batch's way at which a test may make the process
// fail. Only builds with the tag failpoint look at them.
type point string

const (
	pointTakeOver     point = "take-over"
	pointBeforeIntent point = "before-intent"
	pointAfterIntent  point = "after-intent"
	pointInsideInsert point = "inside-insert" // between two partitions
	pointAfterInsert  point = "after-insert"
	pointBeforeCommit point = "before-commit"
	pointAfterCommit  point = "after-commit"
)
