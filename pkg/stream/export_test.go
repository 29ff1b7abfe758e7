package stream

// ErrNoAnswer is among the errors of a request that was not answered in time.
var ErrNoAnswer = errNoAnswer
