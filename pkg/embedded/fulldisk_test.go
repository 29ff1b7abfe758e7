//go:build privileged

package embedded_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/embedded"
)

// smallVolume is a file system of so many MiB, for this test alone.
func smallVolume(t *testing.T, mib int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib)); err != nil {
		t.Fatalf("mount a small tmpfs to fill it (needs root, or CAP_SYS_ADMIN): %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// fill writes until the volume is full; the file is to be removed.
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

// fullQueue is a server on a volume that has just become full: the streams are
// there, and a stuck one has acknowledged so many messages before.
type fullQueue struct {
	n            *embedded.NATS
	js           jetstream.JetStream
	filler       string
	acknowledged uint64
}

const diskBody = 8 << 10

func newFullQueue(t *testing.T) *fullQueue {
	t.Helper()
	dir := smallVolume(t, 100)
	q := &fullQueue{n: start(t, embedded.NATSConfig{DataDir: filepath.Join(dir, "nats")})}
	q.js = connect(t, q.n.URL(), q.n.InProcess(), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectBufSize(-1))
	if _, err := q.js.CreateStream(testContext(t), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Discard: jetstream.DiscardNew}); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if err := q.publish(t, 5*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	q.filler = fill(t, dir)
	for range 1000 {
		if q.publish(t, time.Second) != nil {
			return q
		}
	}
	t.Fatal("a full volume still takes messages")
	return nil
}

// publish publishes the next message, and remembers the acknowledgement.
func (q *fullQueue) publish(t *testing.T, timeout time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(testContext(t), timeout)
	defer cancel()
	ack, err := q.js.Publish(ctx, "s", diskMessage(q.acknowledged+1), jetstream.WithRetryAttempts(0))
	if err == nil {
		q.acknowledged = ack.Sequence
	}
	return err
}

// diskMessage says in its first bytes which sequence it should have.
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

// whole fails the test unless every acknowledged message is there, as it was.
func (q *fullQueue) whole(t *testing.T) {
	t.Helper()
	s, err := q.js.Stream(testContext(t), "S")
	if err != nil {
		t.Fatal(err)
	}
	for sequence := uint64(1); sequence <= q.acknowledged; sequence++ {
		m, err := s.GetMsg(testContext(t), sequence)
		if err != nil {
			t.Fatalf("message %d of %d acknowledged: %v", sequence, q.acknowledged, err)
		}
		if !bytes.Equal(m.Data, diskMessage(sequence)) {
			t.Fatalf("message %d is another: %.30s", sequence, m.Data)
		}
	}
}

// TestFullDiskDoesNotHealByItself is the reason for Watch; where it fails, a
// newer server may not need it any more.
func TestFullDiskDoesNotHealByItself(t *testing.T) {
	t.Parallel()
	q := newFullQueue(t)
	q.free(t)
	if err := q.publish(t, 2*time.Second); err == nil {
		t.Error("a freed volume took a message without a restart")
	}
	if err := q.n.Restart(testContext(t)); err != nil {
		t.Fatal(err)
	}
	q.awaitPublish(t)
	q.whole(t)
}

// awaitPublish publishes until a message is taken, and tells how long it took.
func (q *fullQueue) awaitPublish(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		err := q.publish(t, 300*time.Millisecond)
		if err == nil {
			return time.Since(began)
		}
		if time.Since(began) > patience {
			t.Fatalf("not taken in %v: %v", patience, err)
		}
	}
}

func TestWatchRestartsAStuckServerOnceThereIsRoom(t *testing.T) {
	t.Parallel()
	q := newFullQueue(t)
	watch(t, q.n, embedded.CanaryConfig{Every: 100 * time.Millisecond, Timeout: time.Second, Room: q.room})
	if err := q.publish(t, time.Second); err == nil || q.n.Restarts() != 0 {
		t.Errorf("on a full volume: published %v, %d restarts", err, q.n.Restarts())
	}
	q.free(t)
	t.Logf("taken again after %v", q.awaitPublish(t))
	if q.n.Restarts() == 0 {
		t.Error("taken again without a restart")
	}
	for range 50 {
		if err := q.publish(t, 5*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	q.whole(t)
}

func (q *fullQueue) room() error {
	volume, err := embedded.VolumeOf(filepath.Dir(q.filler))
	if err == nil && volume.Used >= 0.85 {
		err = errors.New("full")
	}
	return err
}
