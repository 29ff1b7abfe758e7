package stream

// ErrNoAnswer is among the errors of what was not answered in time.
var ErrNoAnswer = errNoAnswer
