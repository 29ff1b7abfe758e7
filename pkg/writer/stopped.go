package writer

import (
	"errors"
	"fmt"

	"github.com/logboom/logboom/pkg/stream"
)

// Why a stream stands still until a person has looked at it.
const (
	stopQueueLost  = "queue_lost"
	stopGap        = "gap"
	stopOverfull   = "overfull"
	stopPartFilled = "part_filled"
	stopDiffers    = "intent_differs"
	stopNewer      = "intent_newer"
)

// stoppedError stops a stream: going on would lose or double rows. It says what
// was found and how to go on.
type stoppedError struct {
	code   string // of the closed set above
	found  string
	remedy string
	err    error
}

func (e *stoppedError) Error() string { return e.found + ". To go on: " + e.remedy }
func (e *stoppedError) Unwrap() error { return e.err }

// asStopped is the error as a reason to stop, where it is one.
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
		remedy: "bring the messages back from a backup of the queue, or accept their loss with " + moveTo(name, gap.Got-1),
		err:    err,
	}, true
}

// queueLost says that the stream is not the one that the ledger speaks of: its
// sequences would be used again. known is the last that the ledger knows.
func queueLost(name string, known, last uint64, err error) *stoppedError {
	return &stoppedError{
		code:  stopQueueLost,
		found: fmt.Sprintf("stream %s ends at %d or holds other messages, the ledger knows it to %d: the queue was lost or restored from an older copy", name, last, known),
		remedy: fmt.Sprintf("restore the queue's newest backup; or, where it is lost for good, keep what it holds with nats stream backup %s, "+
			"move its sequences on with nats stream purge %s --seq %d, and then the ledger with %s", name, name, known+1, moveTo(name, known)),
		err: err,
	}
}

// moveTo is the command that sets the ledger to a position by hand.
func moveTo(name string, committed uint64) string {
	return fmt.Sprintf(`nats kv put LEDGER %s '{"epoch":1000000,"committed":%d,"owner":"operator"}'`, stream.WriterKey(name), committed)
}

// wrongCount says that ClickHouse holds what no insert of this intent leaves.
func wrongCount(name, table string, shard uint8, in *stream.Intent, f finding) *stoppedError {
	return &stoppedError{
		code:  f.code,
		found: fmt.Sprintf("stream %s, messages %d to %d: %s", name, in.From, in.To, f.wrong),
		remedy: fmt.Sprintf("look at the rows, then remove them with DELETE FROM %s WHERE _shard = %d AND _seq BETWEEN %d AND %d "+
			"AND toUnixTimestamp64Nano(_recv) BETWEEN %d AND %d; the writer looks again every minute and stores the messages anew",
			table, shard, in.From, in.To, in.ReceivedMin, in.ReceivedMax),
	}
}
