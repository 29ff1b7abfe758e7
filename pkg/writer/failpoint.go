package writer

// point names a place on a batch's path at which a test may make the process
// fail. Only builds with the tag failpoint check it.
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
