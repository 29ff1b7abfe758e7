package web

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/clickhouse"
)

// Explorer looks into what projects stored; clickhouse.Client does.
type Explorer interface {
	Logs(ctx context.Context, q clickhouse.LogQuery) (clickhouse.LogPage, error)
	Events(ctx context.Context, q clickhouse.EventQuery) (clickhouse.EventPage, error)
	Histogram(ctx context.Context, q clickhouse.HistogramQuery) (clickhouse.Histogram, error)
	Facets(ctx context.Context, q clickhouse.FacetQuery) (clickhouse.Facets, error)
	Context(ctx context.Context, q clickhouse.ContextQuery) (clickhouse.LogContext, error)
	Deliveries(ctx context.Context, q clickhouse.DeliveryQuery) (clickhouse.DeliveryPage, error)
}

// later is an answer that is waited for while the page before it is already on
// its way.
type later[T any] struct {
	done  chan struct{} // closed when value and err are there
	value T
	err   error
}

// askLater asks in the background; the group waits for the answer.
func askLater[T any](group *sync.WaitGroup, ask func() (T, error)) *later[T] {
	l := &later[T]{done: make(chan struct{})}
	group.Go(func() {
		defer close(l.done)
		l.value, l.err = ask()
	})
	return l
}

func (l *later[T]) wait() (T, error) {
	<-l.done
	return l.value, l.err
}

// sender sends a page as it is made, compressed where the browser takes that.
type sender struct {
	io.Writer
	flush func()
}

// newSender sets the head of the answer.
func (r *request) newSender(status int) (s sender, end func()) {
	h := r.Response().Header()
	h.Set("Vary", "Accept-Encoding, Cookie")
	h.Set("X-Accel-Buffering", "no") // or a proxy might wait for the whole
	h.Set(echo.HeaderContentType, echo.MIMETextHTMLCharsetUTF8)
	push := func() { _ = http.NewResponseController(r.Response()).Flush() } // what cannot be pushed comes at the end
	if !acceptsGzip(r.Request()) {
		r.Response().WriteHeader(status)
		return sender{r.Response(), push}, func() {}
	}
	h.Set(echo.HeaderContentEncoding, "gzip")
	r.Response().WriteHeader(status)
	w := gzip.NewWriter(r.Response())
	flush := func() {
		_ = w.Flush() // its error comes again with the next write
		push()
	}
	return sender{w, flush}, func() { _ = w.Close() }
}

// stream is render for a page whose parts come one after the other: the
// template calls {{.Body.Flush}} where what is there may be sent. A template's
// failure comes too late for an error page; it cuts the page and is logged.
func (r *request) stream(status int, name string, v view, flusher *func()) error {
	found, ok := r.pages.templates[name]
	if !ok {
		return fmt.Errorf("no template %s", name)
	}
	to, end := r.newSender(status)
	defer end()
	*flusher = to.flush
	if err := found.ExecuteTemplate(to, "layout.html", r.page(v)); err != nil && r.Request().Context().Err() == nil {
		r.pages.deps.Logger.Warn("page cut", "page", name, "project", r.project.Name, "err", err)
	}
	return nil
}
