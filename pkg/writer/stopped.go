package writer

import (
	"errors"
	"fmt"

	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/stream"
)

// Reasons for which a stream stops until a person acts. They are labels of a
// metric.
const (
	stopQueueLost  = "queue_lost"
	stopGap        = "gap"
	stopOverfull   = "overfull"
	stopPartFilled = "part_filled"
	stopDiffers    = "intent_differs"
	stopNewer      = "intent_newer"
)

// stoppedError stops a stream, because going on would lose or double rows. It
// says what was found and how to continue.
type stoppedError struct {
	code   string // one of the reasons above
	found  string
	remedy string
	err    error
}

func (e *stoppedError) Error() string { return e.found + ". To continue: " + e.remedy }
func (e *stoppedError) Unwrap() error { return e.err }

// asStopped returns the error as a reason to stop the stream, if it is one.
func asStopped(name string, err error) (*stoppedError, bool) {
	if stopped, ok := errors.AsType[*stoppedError](err); ok {
		return stopped, true
	}
	gap, ok := errors.AsType[*stream.GapError](err)
	switch {
	case !ok:
		return nil, false
	case gap.Got < gap.Want:
		return queueLost(name, gap.Want, gap.Got-1, err), true
	}
	return &stoppedError{
		code:   stopGap,
		found:  gap.Error(),
		remedy: "restore the messages from a backup of the queue, or accept their loss with " + moveTo(name, gap.Got-1),
		err:    err,
	}, true
}

// queueLost says that the stream is not the one that the ledger is about: its
// sequences would be used again. known is the last sequence in the ledger.
func queueLost(name string, known, last uint64, err error) *stoppedError {
	return &stoppedError{
		code:  stopQueueLost,
		found: fmt.Sprintf("stream %s ends at %d or holds other messages, the ledger is at %d: the queue was lost or restored from an older copy", name, last, known),
		remedy: fmt.Sprintf("restore the queue's newest backup; or, if there is none, keep what the stream holds with nats stream backup %s, "+
			"raise its sequences with nats stream purge %s --seq %d, and then set the ledger with %s", name, name, known+1, moveTo(name, known)),
		err: err,
	}
}

// moveTo returns the command that sets the ledger to a position.
func moveTo(name string, committed uint64) string {
	return fmt.Sprintf(`nats kv put LEDGER %s '{"epoch":1000000,"committed":%d,"owner":"operator"}'`, ledger.WriterKey(name), committed)
}

// wrongCount says that ClickHouse holds rows that no insert of this intent
// leaves.
func wrongCount(name, table string, shard uint8, in *ledger.Intent, f finding) *stoppedError {
	return &stoppedError{
		code:  f.code,
		found: fmt.Sprintf("stream %s, messages %d to %d: %s", name, in.From, in.To, f.wrong),
		remedy: fmt.Sprintf("examine the rows, then remove them with DELETE FROM %s WHERE _shard = %d AND _seq BETWEEN %d AND %d "+
			"AND toUnixTimestamp64Nano(_recv) BETWEEN %d AND %d; the writer counts again every minute and then stores the messages",
			table, shard, in.From, in.To, in.ReceivedMin, in.ReceivedMax),
	}
}
