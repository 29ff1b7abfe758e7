//go:build privileged

package embedded_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/embedded"
)

// smallVolume mounts a file system of that many MiB for the test and returns its
// folder.
func smallVolume(t *testing.T, mib int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib)); err != nil {
		t.Fatalf("mount a small tmpfs (needs root or CAP_SYS_ADMIN): %v", err)
	}
	t.Cleanup(func() {
		eventually(t, "nothing uses the volume", func() bool {
			err := syscall.Unmount(dir, 0)
			if err != nil && !errors.Is(err, syscall.EBUSY) {
				t.Errorf("unmount: %v", err)
			}
			return !errors.Is(err, syscall.EBUSY)
		})
	})
	return dir
}

// fill writes a file until the volume is full, and returns the file's path.
// Remove the file to free the volume.
func fill(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		n, err := f.Write(make([]byte, size))
		switch {
		case errors.Is(err, syscall.ENOSPC):
			size = min(size/2, n)
		case err != nil:
			t.Fatal(err)
		}
	}
	return path
}

// stuckLog receives a value when the server logs that it cannot write a stream's
// file.
type stuckLog chan<- struct{}

func (l stuckLog) Enabled(context.Context, slog.Level) bool { return true }
func (l stuckLog) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l stuckLog) WithGroup(string) slog.Handler            { return l }

func (l stuckLog) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if strings.Contains(a.Value.String(), "Critical write error") {
			select {
			case l <- struct{}{}:
			default: // reported before
			}
		}
		return true
	})
	return nil
}

// fullQueue is a server on a volume that has just become full, so that its stream
// is stuck. acknowledged is the last sequence that the stream acknowledged.
type fullQueue struct {
	n            *embedded.NATS
	js           jetstream.JetStream
	filler       string
	acknowledged uint64
}

const diskBody = 8 << 10

func newFullQueue(t *testing.T) *fullQueue {
	t.Helper()
	dir, stuck := smallVolume(t, 100), make(chan struct{}, 1) // capacity 1: whether it is stuck, not how often it was logged
	cfg := fixedPort(t)
	cfg.DataDir, cfg.Logger = filepath.Join(dir, "nats"), slog.New(stuckLog(stuck))
	q := &fullQueue{n: start(t, cfg)}
	q.js = connect(t, q.n.URL(), q.n.InProcess(), nats.Timeout(attempt), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectBufSize(-1))
	if _, err := q.js.CreateStream(testContext(t), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Discard: jetstream.DiscardNew}); err != nil {
		t.Fatal(err)
	}
	q.publishAll(t, 50)
	q.filler = fill(t, dir)
	eventually(t, "the server accepts no messages on a full volume", func() bool {
		return q.publish(t, time.Second) != nil && len(stuck) == 1
	})
	return q
}

// publish publishes the next message and records the acknowledgement. A message
// that was stored, but not acknowledged in time, is acknowledged by the next call.
func (q *fullQueue) publish(t *testing.T, timeout time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	next := q.acknowledged + 1
	ack, err := q.js.Publish(ctx, "s", diskMessage(next), jetstream.WithRetryAttempts(0), jetstream.WithMsgID(fmt.Sprint(next)))
	if err == nil {
		q.acknowledged = ack.Sequence
	}
	return err
}

func (q *fullQueue) publishAll(t *testing.T, count int) {
	t.Helper()
	for range count {
		if err := q.publish(t, patience); err != nil {
			t.Fatal(err)
		}
	}
}

// diskMessage returns a message that begins with the sequence which it should
// have.
func diskMessage(sequence uint64) []byte {
	body := bytes.Repeat([]byte{'x'}, diskBody)
	copy(body, fmt.Sprintf("%020d", sequence))
	return body
}

func (q *fullQueue) free(t *testing.T) {
	t.Helper()
	if err := os.Remove(q.filler); err != nil {
		t.Fatal(err)
	}
}

// checkMessages fails the test unless every acknowledged message is stored
// unchanged.
func (q *fullQueue) checkMessages(t *testing.T) {
	t.Helper()
	s, err := q.js.Stream(testContext(t), "S")
	if err != nil {
		t.Fatal(err)
	}
	for sequence := uint64(1); sequence <= q.acknowledged; sequence++ {
		m, err := s.GetMsg(testContext(t), sequence)
		if err != nil {
			t.Fatalf("message %d of %d acknowledged messages: %v", sequence, q.acknowledged, err)
		}
		if !bytes.Equal(m.Data, diskMessage(sequence)) {
			t.Fatalf("message %d has other content: %.30s", sequence, m.Data)
		}
	}
}

// This test shows why Watch is needed. If it fails with a newer NATS server,
// that server may not need Watch any more.
func TestServerStuckByAFullDiskNeedsARestart(t *testing.T) {
	t.Parallel()
	q := newFullQueue(t)
	q.free(t)
	if err := q.publish(t, 2*time.Second); err == nil {
		t.Error("the server accepted a message after the volume was freed, without a restart")
	}
	if err := q.n.Restart(testContext(t)); err != nil {
		t.Fatal(err)
	}
	q.awaitPublish(t)
	q.checkMessages(t)
}

// awaitPublish publishes until the server accepts a message.
func (q *fullQueue) awaitPublish(t *testing.T) {
	t.Helper()
	eventually(t, "the server accepts a message again", func() bool { return q.publish(t, time.Second) == nil })
}

func TestWatchRestartsAStuckServerOnceThereIsRoom(t *testing.T) {
	t.Parallel()
	q := newFullQueue(t)
	watch(t, q.n, embedded.CanaryConfig{Every: 100 * time.Millisecond, Timeout: 10 * time.Second, Room: q.room})
	if err := q.publish(t, time.Second); err == nil || q.n.Restarts() != 0 {
		t.Errorf("on a full volume: publish error %v, %d restarts, want an error and no restart", err, q.n.Restarts())
	}
	q.free(t)
	q.awaitPublish(t)
	if q.n.Restarts() == 0 {
		t.Error("the server accepted a message again without a restart")
	}
	q.publishAll(t, 50)
	q.checkMessages(t)
}

func (q *fullQueue) room() error {
	volume, err := embedded.VolumeOf(filepath.Dir(q.filler))
	if err == nil && volume.Used >= 0.85 {
		err = errors.New("full")
	}
	return err
}
