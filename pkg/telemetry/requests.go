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
	codeKey         = "code" // in the echo context: the code of the problem that was answered
)

// ErrPanic is the error of a request whose handler panicked.
var ErrPanic = errors.New("the handler panicked")

// Requests names, guards and measures the requests of one service.
type Requests struct {
	logger   *slog.Logger
	total    *prometheus.CounterVec
	failures *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// NewRequests registers logboom_<service>_requests_total, …_failures_total and
// …_request_duration_seconds. Their labels are closed sets: routes as they are
// laid, codes of problems.
func NewRequests(service string, logger *slog.Logger, registry prometheus.Registerer) *Requests {
	prefix := "logboom_" + service + "_"
	r := &Requests{
		logger:   logger,
		total:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "requests_total", Help: "Requests answered, by route."}, []string{"route"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "failures_total", Help: "Requests answered with a problem, by route and its code."}, []string{"route", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "request_duration_seconds", Help: "From a request's head to its answer.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 60},
		}, []string{"route"}),
	}
	registry.MustRegister(r.total, r.failures, r.duration)
	return r
}

// Observe wraps every request: it names it, catches a panic, and measures it.
func (r *Requests) Observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		began := time.Now()
		c.Response().Header().Set(requestIDHeader, chooseRequestID(c.Request().Header.Get(requestIDHeader)))
		if err := r.guarded(next, c); err != nil {
			c.Error(err)
		}
		code, _ := c.Get(codeKey).(string)
		r.count(c.Path(), code, time.Since(began))
		return nil
	}
}

func (r *Requests) guarded(next echo.HandlerFunc, c echo.Context) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			r.logger.Error("request panicked", "request_id", RequestID(c), "err", fmt.Sprint(cause), "stack", string(debug.Stack()))
			err = ErrPanic
		}
	}()
	return next(c)
}

// count counts one answered request. A path that is no route has no label of
// its own, or senders could make as many as they like.
func (r *Requests) count(route, code string, elapsed time.Duration) {
	if route == "" || code == "not_found" {
		route = "other"
	}
	r.total.WithLabelValues(route).Inc()
	r.duration.WithLabelValues(route).Observe(elapsed.Seconds())
	if code != "" {
		r.failures.WithLabelValues(route, code).Inc()
	}
}

// SetCode tells Observe the code of the problem that is answered.
func SetCode(c echo.Context, code string) { c.Set(codeKey, code) }

// RequestID is the id under which the request is answered and logged.
func RequestID(c echo.Context) string { return c.Response().Header().Get(requestIDHeader) }

// chooseRequestID keeps a sender's own id where it is short and printable.
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
