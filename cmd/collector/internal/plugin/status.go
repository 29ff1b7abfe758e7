package plugin

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/logboom/logboom/cmd/collector/internal/ship"
	"github.com/logboom/logboom/pkg/telemetry"
)

// Status is what GET /status shows. It holds no token.
type Status struct {
	Version  string          `json:"version"`
	Spool    SpoolStatus     `json:"spool"`
	Routes   []ship.State    `json:"routes"`
	Sessions []SessionStatus `json:"sessions"`
}

// SpoolStatus is how full the spool is.
type SpoolStatus struct {
	Bytes    int64 `json:"bytes"`
	MaxBytes int64 `json:"max_bytes"`
}

// SessionStatus is how a container's log does.
type SessionStatus struct {
	Container string `json:"container"`
	Name      string `json:"name"`
	Tag       string `json:"tag"`
	Address   string `json:"address"`
	Over      bool   `json:"over"`          // the container has ended; the rest is being delivered
	Read      int64  `json:"read_bytes"`    // from the FIFO, in all
	Waiting   int64  `json:"waiting_bytes"` // in the spool, not delivered
}

// Status is the present one.
func (s *Service) Status() Status {
	status := Status{
		Version: telemetry.Version(), Spool: SpoolStatus{s.depot.Bytes(), s.depot.MaxBytes()},
		Routes: s.fleet.States(), Sessions: []SessionStatus{},
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.sessions {
		waiting, over := one.stream.Waiting()
		a := one.about
		status.Sessions = append(status.Sessions, SessionStatus{a.short(), a.Name, a.Origin.Tag, a.Destination.URL, over, one.stream.End(), waiting})
	}
	slices.SortFunc(status.Sessions, func(a, b SessionStatus) int {
		return strings.Compare(a.Container, b.Container)
	})
	return status
}

// register adds what is measured when it is asked for.
func (s *Service) register() {
	gauge := func(name, help string, value func() float64) {
		s.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	gauge("logboom_collector_spool_bytes", "Bytes in the spool.", func() float64 { return float64(s.depot.Bytes()) })
	gauge("logboom_collector_spool_limit_bytes", "Bytes that the spool may hold.", func() float64 { return float64(s.depot.MaxBytes()) })
	gauge("logboom_collector_logs", "Logs that are open or not delivered to their end.", func() float64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return float64(len(s.sessions))
	})
}
