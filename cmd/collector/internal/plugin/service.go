// Package plugin implements Docker's log-driver protocol over a unix socket, and
// runs a session for each container's log.
//
// A session is one FIFO with two goroutines: one moves its bytes into a
// spool.Stream, the other delivers them. What a newcomer would get wrong:
// dockerd calls StartLogging once and never again, not even after this process
// has died, and its containers block while nothing reads their FIFOs. The spool
// therefore stores all that a session needs, and Open resumes every session.
//
//	StartLogging ─▶ reading ──StopLogging, or no writer any more──▶ ended ──delivered──▶ removed
//	                 ▲ │
//	         Open    │ │ this process stops
//	                 │ ▼
//	              in the spool; the FIFO holds what was not read
//
// If a FIFO has no writer when its session is resumed, the container ended in
// between: the session has ended and the rest of its stream is delivered.
//
// dockerd also starts and stops a log when a person reads the log of a stopped
// container. Nothing is written to such a FIFO, and nothing is sent.
package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/logboom/logboom/cmd/collector/internal/delivery"
	"github.com/logboom/logboom/cmd/collector/internal/option"
	"github.com/logboom/logboom/cmd/collector/internal/spool"
	"github.com/logboom/logboom/cmd/collector/internal/tag"
)

// Config holds the settings of an operator.
type Config struct {
	SpoolDir    string
	SpoolBytes  int64
	StopTimeout time.Duration   // how long Close waits for what can still be delivered
	Timing      delivery.Timing // zero values: the defaults
}

// Service holds the sessions.
type Service struct {
	cfg      Config
	logger   *slog.Logger
	registry *prometheus.Registry
	metrics  *delivery.Metrics
	spool    *spool.Spool
	routes   *delivery.Routes
	host     string

	running  sync.WaitGroup  // the sessions' goroutines
	syncing  sync.WaitGroup  // the spool's goroutine
	ctx      context.Context // of the senders; it ends when Close stops waiting for them
	cancel   context.CancelFunc
	stopping chan struct{} // closed when Close begins

	mu       sync.Mutex
	sessions map[string]*session // by FIFO
}

// Info is the content of StartLogging: the container, and in Config its log
// options.
type Info struct {
	Config map[string]string
	tag.Container
}

// Open opens the spool and resumes the sessions that it contains. The caller
// closes the service.
func Open(cfg Config, logger *slog.Logger) (*Service, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("host name: %w", err)
	}
	s := &Service{cfg: cfg, logger: logger, registry: prometheus.NewRegistry(), host: host, stopping: make(chan struct{}), sessions: map[string]*session{}}
	s.metrics = delivery.NewMetrics(s.registry)
	s.spool, err = spool.Open(spool.Config{
		Dir: cfg.SpoolDir, MaxBytes: cfg.SpoolBytes, Logger: logger,
		OnDrop: func(lines int64) { s.metrics.CountDropped(delivery.SpoolFull, lines) },
	})
	if err != nil {
		return nil, err
	}
	s.routes = delivery.NewRoutes(cfg.Timing, logger, s.metrics)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.registerGauges()
	for _, stream := range s.spool.Streams() {
		if err := s.resume(stream); err != nil {
			logger.Error("spooled session not resumed", "stream", stream.ID, "err", err)
		}
	}
	s.syncing.Go(func() { s.spool.Run(s.ctx) })
	return s, nil
}

// registerGauges registers the metrics that are measured on request.
func (s *Service) registerGauges() {
	gauge := func(name, help string, value func() float64) {
		s.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	gauge("logboom_collector_spool_bytes", "Bytes in the spool.", func() float64 { return float64(s.spool.Bytes()) })
	gauge("logboom_collector_spool_limit_bytes", "Bound of the bytes in the spool.", func() float64 { return float64(s.spool.MaxBytes()) })
	gauge("logboom_collector_logs", "Logs that are open or not fully delivered.", func() float64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return float64(len(s.sessions))
	})
}

// Start starts a session. It does nothing if the session is reading already,
// because dockerd repeats a call whose answer it has missed. The error is shown
// to the person who starts the container.
func (s *Service) Start(file string, info Info) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.stopping:
		return errors.New("the collector is stopping")
	default:
	}
	if old, ok := s.sessions[file]; ok && old.currentPhase() == reading {
		return nil
	}
	about, err := s.describe(file, info)
	if err != nil {
		return err
	}
	text, err := json.Marshal(about)
	if err != nil {
		return fmt.Errorf("session: %w", err)
	}
	route := s.routes.Acquire(about.Destination)
	if err := route.Check(); err != nil {
		s.routes.Release(route)
		return err
	}
	fifo, err := openFIFO(file)
	if err != nil {
		s.routes.Release(route)
		return err
	}
	id := strconv.FormatInt(time.Now().UnixNano(), 16) + "-" + uuid.NewString()[:8] // IDs sort by time
	stream, err := s.spool.Create(id, text, about.SpoolBytes)
	if err != nil {
		s.routes.Release(route)
		return errors.Join(err, fifo.Close())
	}
	s.run(&session{about: about, stream: stream, route: route, fifo: fifo})
	s.logger.Info("log opened", "container", about.shortID(), "name", about.Name, "tag", about.Origin.Tag, "address", about.Destination.URL)
	return nil
}

// describe parses the options and returns what the spool stores of a session.
func (s *Service) describe(file string, info Info) (about, error) {
	options, err := option.Parse(info.Config)
	if err != nil {
		return about{}, err
	}
	name, err := tag.Expand(options.Tag, &info.Container, options.Attributes)
	if err != nil {
		return about{}, fmt.Errorf("log option tag: %w", err)
	}
	return about{
		File: file, Container: info.ContainerID, Name: info.ContainerName, Started: time.Now().UTC(),
		Destination: options.Destination, Batch: options.Batch, SpoolBytes: options.SpoolBytes,
		Origin: delivery.Origin{Tag: name, Host: s.host, Attributes: info.Attributes(options.Attributes)},
	}, nil
}

// resume resumes a session of an earlier process.
func (s *Service) resume(stream *spool.Stream) error {
	var about about
	if err := json.Unmarshal(stream.About(), &about); err != nil {
		return fmt.Errorf("session: %w", err)
	}
	stream.SetLimit(about.SpoolBytes)
	fifo, err := openFIFO(about.File)
	resumed := &session{about: about, stream: stream, route: s.routes.Acquire(about.Destination), fifo: fifo}
	if err != nil {
		resumed.phase = ended // the container ended while no process read its FIFO
		stream.Finish()
	}
	pending, _ := stream.Pending()
	s.run(resumed)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.logger.Error("log not reopened", "container", about.shortID(), "err", err)
	}
	s.logger.Info("log resumed", "container", about.shortID(), "name", about.Name, "open", err == nil, "bytes", pending)
	return nil
}

// run starts a session's goroutines. The caller holds mu, or is the only one
// that uses the service.
func (s *Service) run(session *session) {
	session.logger = s.logger.With("container", session.about.shortID())
	s.sessions[session.about.File] = session
	if session.fifo != nil {
		s.running.Go(session.receive)
	}
	sender := delivery.NewSender(s.spool, session.stream, session.route, session.about.Origin, session.about.Batch, session.logger)
	s.running.Go(func() {
		defer s.routes.Release(session.route)
		if sender.Run(s.ctx, s.stopping) {
			s.remove(session)
		}
	})
}

// remove removes a session whose stream is delivered.
func (s *Service) remove(session *session) {
	if err := session.stream.Remove(); err != nil {
		s.logger.Error("delivered stream not removed", "stream", session.stream.ID, "err", err)
	}
	session.logger.Info("log delivered", "bytes", session.stream.End())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[session.about.File] == session {
		delete(s.sessions, session.about.File)
	}
}

// Stop ends a session and does not wait. The rest of the FIFO is still read, and
// the rest of the stream is still delivered.
func (s *Service) Stop(file string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if session, ok := s.sessions[file]; ok {
		session.stopReading(ended)
	}
}

// Close stops reading the FIFOs, gives the senders StopTimeout to deliver what
// is pending, and closes the spool, which keeps the rest.
func (s *Service) Close() error {
	s.mu.Lock()
	close(s.stopping)
	for _, session := range s.sessions {
		session.stopReading(paused)
	}
	s.mu.Unlock()
	timer := time.AfterFunc(s.cfg.StopTimeout, s.cancel)
	defer timer.Stop()
	s.running.Wait()
	s.cancel()
	s.syncing.Wait()
	return s.spool.Close()
}
