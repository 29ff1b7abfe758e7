package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/config"
	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/outbox"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/stream/streamtest"
)

// newQueue is a real queue whose writer is done with messages 1 to 9 of LOGS_0,
// and its dead letters.
func newQueue(t *testing.T) (*stream.Topology, *outbox.Letters, *embedded.NATS) {
	t.Helper()
	server, err := embedded.StartNATS(t.Context(), embedded.NATSConfig{DataDir: t.TempDir(), MaxStore: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop(context.Background()) })
	nc, js, err := stream.Connect(t.Context(), server.URL(), streamtest.Calm("test"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	topology, err := stream.Open(t.Context(), js, stream.Config{Shards: 1, MaxBytes: 8 << 20, DeadMaxBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	again(t, func() error {
		positions, err := ledger.Open(t.Context(), js, 1, nil)
		if err != nil {
			return err
		}
		position, err := positions.TakeOver(t.Context(), ledger.WriterKey("LOGS_0"))
		if err != nil {
			return err
		}
		_, err = positions.Commit(t.Context(), ledger.WriterKey("LOGS_0"), position, 9, time.Time{})
		return err
	})
	return topology, outbox.NewLetters(js, ledger.Committed(js)), server
}

// again tries something again for which the queue was late: its bounds are of
// seconds, which a machine that stands still passes.
func again(t *testing.T, try func() error) {
	t.Helper()
	err := try()
	for deadline := time.Now().Add(time.Minute); errors.Is(err, context.DeadlineExceeded) && time.Now().Before(deadline); {
		err = try()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func bury(t *testing.T, topology *stream.Topology, seqs ...uint64) {
	t.Helper()
	for _, seq := range seqs {
		err := topology.PublishDeadLetter(t.Context(), stream.DeadLetter{
			Reason: "poison", Stream: "LOGS_0", Seq: seq, Time: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC),
			Data: []byte("a payload"), Detail: "code 27",
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestListPrintsATableWithoutPayloads(t *testing.T) {
	t.Parallel()
	topology, _, server := newQueue(t)
	bury(t, topology, 3, 12)
	var out bytes.Buffer
	err := withLetters(t.Context(), server.URL(), func(ctx context.Context, letters *outbox.Letters, _ io.Writer) error {
		return list(ctx, letters, &out)
	})
	const want = `
ID  TIME                  STREAM  SEQ  REASON  BYTES  DETAIL
1   2026-11-21T10:00:00Z  LOGS_0  3    poison  9      code 27
2   2026-11-21T10:00:00Z  LOGS_0  12   poison  9      code 27
`
	if got := "\n" + out.String(); err != nil || got != want {
		t.Errorf("got %v and%s", err, got)
	}
}

func TestReplayOfAllGoesOnAfterALetterThatHasToStay(t *testing.T) {
	t.Parallel()
	topology, letters, _ := newQueue(t)
	bury(t, topology, 3, 12, 4)
	var out bytes.Buffer
	err := (&replayLetters{All: true}).replay(t.Context(), letters, &out)
	if err == nil || err.Error() != "1 of 3 dead letters were kept" {
		t.Errorf("got %v", err)
	}
	if got := out.String(); !strings.Contains(got, "1 replayed: message 1 of LOGS_0\n2 kept: ") || !strings.HasSuffix(got, "3 replayed: message 2 of LOGS_0\n") {
		t.Errorf("printed:\n%s", got)
	}
	if left, err := letters.List(t.Context(), 0, 10); err != nil || len(left.Letters) != 1 || left.Letters[0].ID != 2 {
		t.Errorf("left are %+v, %v", left, err)
	}
}

func TestReplayOfOneTellsThatItIsNotThere(t *testing.T) {
	t.Parallel()
	topology, letters, _ := newQueue(t)
	bury(t, topology, 3)
	if err := (&replayLetters{ID: 1}).replay(t.Context(), letters, io.Discard); err != nil {
		t.Error(err)
	}
	if err := (&replayLetters{ID: 1}).replay(t.Context(), letters, io.Discard); !errors.Is(err, stream.ErrNoLetter) {
		t.Errorf("got %v, want ErrNoLetter", err)
	}
}

func TestDeadLetterCommandsReadTheirSettings(t *testing.T) {
	t.Parallel()
	for args, good := range map[string]bool{
		"dead-letters list":                        true,
		"dead-letters list --nats-url=http://x":    false,
		"dead-letters list 1":                      false,
		"dead-letters replay 7":                    true,
		"dead-letters replay --all":                true,
		"dead-letters replay":                      false,
		"dead-letters replay 7 --all":              false,
		"dead-letters replay 0":                    false,
		"dead-letters replay -- -1":                false,
		"dead-letters replay 7 --nats-url=nats://": false,
	} {
		var cfg settings
		read, err := config.Parse("admin", "", &cfg, strings.Fields(args), io.Discard)
		if (err == nil) != good {
			t.Errorf("%s: %v", args, err)
		}
		if err == nil && !strings.HasPrefix(read.Command, args[:len("dead-letters list")]) {
			t.Errorf("%s is the command %s", args, read.Command)
		}
	}
}
