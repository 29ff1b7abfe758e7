package api

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/query"

	"github.com/logboom/logboom/pkg/record"
)

const (
	maxTails = 32 // at once, in this process
	// tailEvery is how often a tail looks. A log is shown half of that, on
	// average, after it is stored.
	tailEvery = 500 * time.Millisecond
	// tailLimit bounds the logs of one look; what is over it is counted as
	// dropped. More nobody could read.
	tailLimit = 500
	// tailBeat is how long nothing is sent before a comment is, which finds
	// connections that are gone.
	tailBeat = 15 * time.Second
	// tailLife ends a tail: the asker takes it up again, with a key that is
	// looked at again.
	tailLife = time.Minute
	// tailRetry is how long an asker waits before that.
	tailRetry = 250 * time.Millisecond
)

var errTailsFull = errors.New("so many tails are open here already; try again later")

// tails bounds the tails that are open, and ends them when the server stops.
type tails struct {
	slots   chan struct{} // capacity: how many may be open
	stopped chan struct{}
	stop    func()
}

func newTails() *tails {
	t := &tails{slots: make(chan struct{}, maxTails), stopped: make(chan struct{})}
	t.stop = sync.OnceFunc(func() { close(t.stopped) })
	return t
}

// open takes a slot; the caller gives it back.
func (t *tails) open() (release func(), err error) {
	select {
	case t.slots <- struct{}{}:
		return func() { <-t.slots }, nil
	default:
		return nil, errTailsFull
	}
}

// tail sends a project's logs as they are stored.
func (a *API) tail(r *request) error {
	filter, _, _, err := readFilter(r, record.KindLog)
	if err != nil {
		return err
	}
	release, err := a.tails.open()
	if err != nil {
		return err
	}
	defer release()
	mark, err := a.tailMark(r)
	if err != nil {
		return err
	}
	f := follower{api: a, request: r, filter: filter, mark: mark}
	if err := f.begin(); err != nil {
		return nil // the asker is gone
	}
	f.run()
	return nil
}

// tailMark is where the tail begins: behind the event that the asker names, or
// behind all that is stored.
func (a *API) tailMark(r *request) (clickhouse.TailMark, error) {
	if last := r.Request().Header.Get("Last-Event-ID"); last != "" {
		return clickhouse.ParseTailMark(last, time.Now())
	}
	return a.service.Tail(r.Request().Context(), r.project)
}

// follower is one tail: what it looks for and how far it has come.
type follower struct {
	api     *API
	request *request
	filter  query.Query
	mark    clickhouse.TailMark
	sent    time.Time // when anything was last
}

// begin sends the head and where the tail stands, so that an asker who sees
// nothing can take it up too.
func (f *follower) begin() error {
	response := f.request.Response()
	response.Header().Set(echo.HeaderContentType, mediaEvents)
	response.Header().Set("X-Accel-Buffering", "no") // or a proxy might wait for more
	response.WriteHeader(http.StatusOK)
	return f.send(fmt.Appendf(nil, "retry: %d\nid: %s\nevent: open\ndata: {}\n\n", tailRetry.Milliseconds(), f.mark))
}

// run looks again and again, until the asker, the server or the tail's time
// ends it.
func (f *follower) run() {
	looks := time.NewTicker(tailEvery)
	defer looks.Stop()
	life := time.NewTimer(tailLife)
	defer life.Stop()
	for {
		if err := f.look(); err != nil {
			return
		}
		select {
		case <-looks.C:
		case <-life.C:
			return
		case <-f.api.tails.stopped:
			return
		case <-f.request.Request().Context().Done():
			return
		}
	}
}

// look sends what is new. An error ends the tail; one of the store is told to
// the asker first.
func (f *follower) look() error {
	found, err := f.api.service.Follow(f.request.Request().Context(), f.request.project, f.filter, f.mark, tailLimit)
	if err != nil {
		return errors.Join(err, f.sendProblem(err))
	}
	body, err := eventsOf(found)
	if err != nil {
		return err
	}
	f.mark = found.Next
	switch {
	case len(body) > 0:
		return f.send(body)
	case time.Since(f.sent) >= tailBeat:
		return f.send([]byte(": still here\n\n"))
	}
	return nil
}

// eventsOf writes what a look found: an event for what was passed over, then
// one a log, each with the mark behind it.
func eventsOf(found clickhouse.Tailed) ([]byte, error) {
	var body []byte
	if found.Dropped > 0 {
		body = fmt.Appendf(body, "event: dropped\ndata: {\"count\":%d}\n\n", found.Dropped)
	}
	for _, one := range found.Logs {
		line, err := lineOf(one.Log)
		if err != nil {
			return nil, err
		}
		body = fmt.Appendf(body, "id: %s\nevent: log\ndata: %s\n\n", one.Mark, line)
	}
	return body, nil
}

// sendProblem tells why the tail ends here.
func (f *follower) sendProblem(err error) error {
	p := problemOf(err)
	f.api.logger.Debug("tail ended", "project", f.request.project.Name, "err", err)
	line, err := lineOf(map[string]string{"code": p.Code, "detail": p.Detail})
	if err != nil {
		return err
	}
	return f.send(fmt.Appendf(nil, "event: problem\ndata: %s\n\n", line))
}

// send writes and flushes; an asker who takes nothing for long is let go.
func (f *follower) send(body []byte) error {
	allowWrite(f.request)
	if _, err := f.request.Response().Write(body); err != nil {
		return err
	}
	f.sent = time.Now()
	return http.NewResponseController(f.request.Response()).Flush()
}
