package telemetry

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	requestIDHeader = "X-Request-Id"
	maxRequestID    = 128
	codeKey         = "code" // in the echo context: the code of the problem in the answer
)

// ErrPanic is the error of a request whose handler panicked.
var ErrPanic = errors.New("the handler panicked")

// Requests assigns an id to the requests of one service, catches their panics and
// records their metrics.
type Requests struct {
	logger   *slog.Logger
	total    *prometheus.CounterVec
	failures *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// NewRequests registers logboom_<service>_requests_total, …_failures_total and
// …_request_duration_seconds. Their labels are closed sets: registered routes and
// codes of problems.
func NewRequests(service string, logger *slog.Logger, registry prometheus.Registerer) *Requests {
	prefix := "logboom_" + service + "_"
	r := &Requests{
		logger:   logger,
		total:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "requests_total", Help: "Answered requests, by route."}, []string{"route"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "failures_total", Help: "Requests answered with a problem, by route and code."}, []string{"route", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "request_duration_seconds", Help: "Time from a request's header to its answer.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 60},
		}, []string{"route"}),
	}
	registry.MustRegister(r.total, r.failures, r.duration)
	return r
}

// Observe is the middleware for every request.
func (r *Requests) Observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		began := time.Now()
		c.Response().Header().Set(requestIDHeader, chooseRequestID(c.Request().Header.Get(requestIDHeader)))
		if err := r.guarded(next, c); err != nil {
			c.Error(err)
		}
		code, _ := c.Get(codeKey).(string)
		r.record(c.Path(), code, time.Since(began))
		return nil
	}
}

// guarded calls next and turns a panic into ErrPanic.
func (r *Requests) guarded(next echo.HandlerFunc, c echo.Context) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			r.logger.Error("request panicked", "request_id", RequestID(c), "err", fmt.Sprint(cause), "stack", string(debug.Stack()))
			err = ErrPanic
		}
	}()
	return next(c)
}

// record records one answered request. A path without a route has no label of its
// own, because clients could create any number of labels.
func (r *Requests) record(route, code string, elapsed time.Duration) {
	if route == "" || code == "not_found" {
		route = "other"
	}
	r.total.WithLabelValues(route).Inc()
	r.duration.WithLabelValues(route).Observe(elapsed.Seconds())
	if code != "" {
		r.failures.WithLabelValues(route, code).Inc()
	}
}

// SetCode sets the code of the answered problem for Observe.
func SetCode(c echo.Context, code string) { c.Set(codeKey, code) }

// RequestID returns the id under which the request is answered and logged.
func RequestID(c echo.Context) string { return c.Response().Header().Get(requestIDHeader) }

// chooseRequestID returns the client's own id if it is short and printable, or else a
// new one.
func chooseRequestID(sent string) string {
	if sent == "" || len(sent) > maxRequestID {
		return rand.Text()
	}
	for i := range len(sent) {
		if sent[i] <= ' ' || sent[i] > '~' {
			return rand.Text()
		}
	}
	return sent
}
