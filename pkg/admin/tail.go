package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/query"
)

const (
	maxTails = 32 // at the same time, in this process
	// tailInterval is the time between two reads of a tail. A log is shown, on
	// average, half of it after it was stored.
	tailInterval = 500 * time.Millisecond
	// tailLimit bounds the logs of one read; older ones are counted as dropped. A
	// person could not read more.
	tailLimit = 500
	// tailHeartbeat is the time without events after which a comment is sent. It
	// finds connections that are lost.
	tailHeartbeat = 15 * time.Second
	// tailLifetime ends a tail. The client resumes it, and its key or session is
	// checked again.
	tailLifetime = time.Minute
	// tailRetry is how long a client waits before it resumes a tail.
	tailRetry = 250 * time.Millisecond
	// tailWriteTimeout ends the tail of a client that does not read.
	tailWriteTimeout = 30 * time.Second
)

// ErrTailsFull is the error of one tail too many.
var ErrTailsFull = errors.New("too many tails are open; try again later")

// tails bounds the open tails, and ends them when the server stops.
type tails struct {
	slots   chan struct{} // capacity: the tails that may be open
	stopped chan struct{}
	stop    func()
}

func newTails() *tails {
	t := &tails{slots: make(chan struct{}, maxTails), stopped: make(chan struct{})}
	t.stop = sync.OnceFunc(func() { close(t.stopped) })
	return t
}

// StopTails ends the live tails, which would otherwise last as long as their
// clients want.
func (s *Service) StopTails() { s.tails.stop() }

// TailFormat is how a tail writes what it sends. Both functions return one line.
type TailFormat struct {
	Log     func(clickhouse.StoredLog) ([]byte, error)
	Problem func(error) ([]byte, error) // why the tail ends
}

// Tail answers a request with the project's logs that match the filter, as they
// are stored, as server-sent events: log, dropped (how many logs were left out)
// and problem. A client that sends the Last-Event-ID of a former tail resumes it.
// Tail returns an error only if it has not sent anything.
func (s *Service) Tail(w http.ResponseWriter, r *http.Request, p project.Project, filter query.Query, format TailFormat) error {
	select {
	case s.tails.slots <- struct{}{}:
		defer func() { <-s.tails.slots }()
	default:
		return ErrTailsFull
	}
	t := tail{service: s, w: w, project: p, filter: filter, format: format}
	var err error
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		t.mark, err = clickhouse.ParseTailMark(last, time.Now())
	} else {
		t.mark, err = s.tailEnd(r.Context(), p)
	}
	if err != nil {
		return err
	}
	t.run(r.Context())
	return nil
}

func (s *Service) tailEnd(ctx context.Context, p project.Project) (clickhouse.TailMark, error) {
	ctx, cancel := s.querying(ctx)
	defer cancel()
	return s.deps.Reader.Tail(ctx, p.ID, time.Now())
}

// tail is one open tail.
type tail struct {
	service *Service
	w       http.ResponseWriter
	project project.Project
	filter  query.Query
	format  TailFormat
	mark    clickhouse.TailMark
	sent    time.Time // when anything was sent last
}

// run reads and sends until the client, the server or the lifetime ends the
// tail. First it sends the position, so that a client that receives no log can
// resume too.
func (t *tail) run(ctx context.Context) {
	t.w.Header().Set("Content-Type", "text/event-stream")
	t.w.Header().Set("X-Accel-Buffering", "no") // otherwise a proxy may wait for more
	t.w.WriteHeader(http.StatusOK)
	err := t.send(fmt.Appendf(nil, "retry: %d\nid: %s\nevent: open\ndata: {}\n\n", tailRetry.Milliseconds(), t.mark))
	interval := time.NewTicker(tailInterval)
	defer interval.Stop()
	lifetime := time.NewTimer(tailLifetime)
	defer lifetime.Stop()
	for err == nil {
		if err = t.sendNew(ctx); err != nil {
			return
		}
		select {
		case <-interval.C:
		case <-lifetime.C:
			return
		case <-t.service.tails.stopped:
			return
		case <-ctx.Done():
			return
		}
	}
}

// sendNew sends the logs stored since the mark. An error ends the tail; the
// client receives an error of the read first.
func (t *tail) sendNew(ctx context.Context) error {
	ctx, cancel := t.service.querying(ctx)
	defer cancel()
	found, err := t.service.deps.Reader.Follow(ctx, t.project.ID, t.filter, t.mark, tailLimit, time.Now())
	if err != nil {
		t.service.deps.Logger.Debug("tail ended", "project", t.project.Name, "err", err)
		line, failed := t.format.Problem(err)
		if failed != nil {
			return errors.Join(err, failed)
		}
		return errors.Join(err, t.send(fmt.Appendf(nil, "event: problem\ndata: %s\n\n", line)))
	}
	var body []byte
	if found.Dropped > 0 {
		body = fmt.Appendf(body, "event: dropped\ndata: {\"count\":%d}\n\n", found.Dropped)
	}
	for _, one := range found.Logs {
		line, err := t.format.Log(one.Log)
		if err != nil {
			return err
		}
		body = fmt.Appendf(body, "id: %s\nevent: log\ndata: %s\n\n", one.Mark, line)
	}
	t.mark = found.Next
	switch {
	case len(body) > 0:
		return t.send(body)
	case time.Since(t.sent) >= tailHeartbeat:
		return t.send([]byte(": still here\n\n"))
	}
	return nil
}

func (t *tail) send(body []byte) error {
	controller := http.NewResponseController(t.w)
	_ = controller.SetWriteDeadline(time.Now().Add(tailWriteTimeout)) // a recorder in a test has none
	if _, err := t.w.Write(body); err != nil {
		return err
	}
	t.sent = time.Now()
	return controller.Flush()
}
