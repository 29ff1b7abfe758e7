package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/logboom/logboom/pkg/config"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/outbox"
	"github.com/logboom/logboom/pkg/stream"
)

// connectTimeout is how long a command waits for the queue.
const connectTimeout = 10 * time.Second

// deadLetters are the commands that work with dead letters.
type deadLetters struct {
	List   listLetters   `cmd:"" help:"List the messages that could not be stored, the oldest first."`
	Replay replayLetters `cmd:"" help:"Publish dead letters again to the streams that they came from."`
}

type listLetters struct {
	config.NATS `embed:""`
}

type replayLetters struct {
	config.NATS `embed:""`

	ID  uint64 `arg:"" optional:"" env:"-" help:"The dead letter's ID, as list shows it."`
	All bool   `env:"-" help:"Replay all dead letters that exist now."`
}

// Validate requires either an ID or --all.
func (r *replayLetters) Validate() error {
	if r.All == (r.ID != 0) {
		return errors.New("give either the ID of a dead letter or --all")
	}
	return r.NATS.Validate()
}

// run runs a subcommand of dead-letters and returns its exit code.
func (d *deadLetters) run(command string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	address, do := d.Replay.NATSURL, d.Replay.replay
	if strings.HasPrefix(command, "dead-letters list") {
		address, do = d.List.NATSURL, list
	}
	if err := withLetters(ctx, address.Reveal(), do); err != nil {
		fmt.Fprintf(os.Stderr, "admin: %v\n", err)
		return 1
	}
	return 0
}

// withLetters calls do with the dead letters of the queue at the address.
func withLetters(ctx context.Context, address string, do func(context.Context, *outbox.Letters, io.Writer) error) error {
	connecting, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	nc, js, err := stream.Connect(connecting, address, stream.ConnectConfig{Name: "admin dead-letters"})
	if err != nil {
		return err
	}
	defer nc.Close()
	return do(ctx, outbox.NewLetters(js, ledger.Committed(js)), os.Stdout)
}

// list prints a table of all dead letters.
func list(ctx context.Context, letters *outbox.Letters, out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tTIME\tSTREAM\tSEQ\tREASON\tBYTES\tDETAIL")
	err := each(ctx, letters, func(l stream.Letter) error {
		_, err := fmt.Fprintf(table, "%d\t%s\t%s\t%d\t%s\t%d\t%s\n",
			l.ID, l.Time.UTC().Format(time.RFC3339), l.Stream, l.Seq, l.Reason, l.Bytes, l.Detail)
		return err
	})
	return errors.Join(err, table.Flush())
}

// each calls do for every dead letter.
func each(ctx context.Context, letters *outbox.Letters, do func(stream.Letter) error) error {
	for after := uint64(0); ; {
		page, err := letters.List(ctx, after, stream.MaxLetterPage)
		if err != nil {
			return err
		}
		for _, l := range page.Letters {
			if err := do(l); err != nil {
				return err
			}
		}
		if page.Next == 0 {
			return nil
		}
		after = page.Next
	}
}

// replay replays one dead letter, or all that exist at the start: a message that
// cannot be stored again becomes a new dead letter.
func (r *replayLetters) replay(ctx context.Context, letters *outbox.Letters, out io.Writer) error {
	if !r.All {
		return replayOne(ctx, letters, r.ID, out)
	}
	var ids []uint64
	err := each(ctx, letters, func(l stream.Letter) error {
		ids = append(ids, l.ID)
		return nil
	})
	if err != nil {
		return err
	}
	return replayEach(ctx, letters, ids, out)
}

// replayEach replays the dead letters with the IDs. It continues after one that
// cannot be replayed, and stops if the queue accepts none. It ignores one that
// another process has replayed since it was listed.
func replayEach(ctx context.Context, letters *outbox.Letters, ids []uint64, out io.Writer) error {
	kept := 0
	for _, id := range ids {
		err := replayOne(ctx, letters, id, out)
		switch {
		case err == nil, errors.Is(err, stream.ErrNoLetter):
		case errors.Is(err, stream.ErrNeverQueued), errors.Is(err, stream.ErrNotCommitted):
			kept++
			fmt.Fprintf(out, "%d kept: %v\n", id, err)
		default:
			return err
		}
	}
	if kept > 0 {
		return fmt.Errorf("%d of %d dead letters were kept", kept, len(ids))
	}
	return nil
}

func replayOne(ctx context.Context, letters *outbox.Letters, id uint64, out io.Writer) error {
	ack, err := letters.Replay(ctx, id)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%d replayed: message %d of %s\n", id, ack.Seq, ack.Stream)
	return err
}
