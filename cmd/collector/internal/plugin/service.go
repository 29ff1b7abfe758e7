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

	"github.com/logboom/logboom/cmd/collector/internal/option"
	"github.com/logboom/logboom/cmd/collector/internal/ship"
	"github.com/logboom/logboom/cmd/collector/internal/spool"
	"github.com/logboom/logboom/cmd/collector/internal/tag"
)

// Config is what an operator sets.
type Config struct {
	SpoolDir   string
	SpoolBytes int64
	StopWithin time.Duration // how long a stop waits for what can still be delivered
	Patience   ship.Patience // zero values: the defaults
}

// Service holds the sessions.
type Service struct {
	cfg      Config
	logger   *slog.Logger
	registry *prometheus.Registry
	metrics  *ship.Metrics
	depot    *spool.Depot
	fleet    *ship.Fleet
	host     string

	running  sync.WaitGroup  // pumps and senders
	syncing  sync.WaitGroup  // the depot's goroutine
	ctx      context.Context // of the senders: ends when a stop may wait no longer
	end      context.CancelFunc
	stopping chan struct{} // closed when a stop begins

	mu       sync.Mutex
	sessions map[string]*session // by FIFO
}

// Info is what StartLogging is told: the container, and the options in Config.
type Info struct {
	Config map[string]string
	tag.Container
}

// Open takes the spool and goes on with the sessions that it finds there.
func Open(cfg Config, logger *slog.Logger) (*Service, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("host name: %w", err)
	}
	s := &Service{cfg: cfg, logger: logger, registry: prometheus.NewRegistry(), host: host, stopping: make(chan struct{}), sessions: map[string]*session{}}
	s.metrics = ship.NewMetrics(s.registry)
	s.depot, err = spool.Open(spool.Config{Dir: cfg.SpoolDir, MaxBytes: cfg.SpoolBytes, Logger: logger, OnDrop: s.dropped})
	if err != nil {
		return nil, err
	}
	s.fleet = ship.NewFleet(cfg.Patience, logger, s.metrics)
	s.ctx, s.end = context.WithCancel(context.Background())
	s.register()
	for _, stream := range s.depot.Streams() {
		if err := s.resume(stream); err != nil {
			logger.Error("spooled session not taken up", "stream", stream.ID, "err", err)
		}
	}
	s.syncing.Go(func() { _ = s.depot.Run(s.ctx) }) // it ends with ctx, and only then
	return s, nil
}

func (s *Service) dropped(lines int64) {
	s.metrics.Dropped.WithLabelValues(ship.SpoolFull).Add(float64(lines))
}

// Start begins a session; one that is open already is left alone, because
// dockerd repeats calls whose answer it missed. The error is for the person
// who starts the container.
func (s *Service) Start(file string, info Info) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped() {
		return errors.New("the collector is stopping")
	}
	if one, ok := s.sessions[file]; ok && one.why() == open {
		return nil
	}
	about, err := s.about(file, info)
	if err != nil {
		return err
	}
	text, err := json.Marshal(about)
	if err != nil {
		return fmt.Errorf("session: %w", err)
	}
	route := s.fleet.Take(about.Destination)
	if err := route.Check(); err != nil {
		s.fleet.Give(route)
		return err
	}
	fifo, err := openFIFO(file)
	if err != nil {
		s.fleet.Give(route)
		return err
	}
	stream, err := s.depot.Create(streamID(), text, about.SpoolBytes)
	if err != nil {
		s.fleet.Give(route)
		return errors.Join(err, fifo.Close())
	}
	s.run(&session{about: about, stream: stream, route: route, fifo: fifo})
	s.logger.Info("log opened", "container", about.short(), "name", about.Name, "tag", about.Origin.Tag, "address", about.Destination.URL)
	return nil
}

// streamID sorts by time.
func streamID() string {
	return strconv.FormatInt(time.Now().UnixNano(), 16) + "-" + uuid.NewString()[:8]
}

func (s *Service) about(file string, info Info) (about, error) {
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
		Origin: ship.Origin{Tag: name, Host: s.host, Attributes: info.Attributes(options.Attributes)},
	}, nil
}

// resume takes up a session of an earlier process.
func (s *Service) resume(stream *spool.Stream) error {
	var about about
	if err := json.Unmarshal(stream.About(), &about); err != nil {
		return fmt.Errorf("session: %w", err)
	}
	stream.Limit(about.SpoolBytes)
	fifo, err := openFIFO(about.File)
	one := &session{about: about, stream: stream, route: s.fleet.Take(about.Destination), fifo: fifo}
	if err != nil {
		one.ending = over // the container ended while nobody was here
		stream.Finish()
	}
	waiting, _ := stream.Waiting()
	s.run(one)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.logger.Error("log not opened again", "container", about.short(), "err", err)
	}
	s.logger.Info("log taken up again", "container", about.short(), "name", about.Name, "open", err == nil, "bytes", waiting)
	return nil
}

// run starts a session's goroutines. Called with mu held, or before anybody
// else knows of the service.
func (s *Service) run(one *session) {
	one.logger = s.logger.With("container", one.about.short())
	s.sessions[one.about.File] = one
	if one.fifo != nil {
		s.running.Go(one.pump)
	}
	sender := ship.NewSender(s.depot, one.stream, one.route, one.about.Origin, one.about.Batch, one.logger)
	s.running.Go(func() {
		defer s.fleet.Give(one.route)
		if sender.Run(s.ctx, s.stopping) {
			s.gone(one)
		}
	})
}

// gone forgets a session that is delivered to its end.
func (s *Service) gone(one *session) {
	if err := one.stream.Remove(); err != nil {
		s.logger.Error("delivered stream not removed", "stream", one.stream.ID, "err", err)
	}
	one.logger.Info("log delivered to its end", "bytes", one.stream.End())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[one.about.File] == one {
		delete(s.sessions, one.about.File)
	}
}

// Stop ends a session. It does not wait: what the FIFO holds is still read,
// what the spool holds still sent.
func (s *Service) Stop(file string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one, ok := s.sessions[file]; ok {
		one.stop()
	}
}

func (s *Service) stopped() bool {
	select {
	case <-s.stopping:
		return true
	default:
		return false
	}
}

// Close leaves the FIFOs as they are, gives the senders a moment to deliver
// what is left, and lets go of the spool, where the rest stays.
func (s *Service) Close() error {
	s.mu.Lock()
	close(s.stopping)
	for _, one := range s.sessions {
		one.pause()
	}
	s.mu.Unlock()
	timer := time.AfterFunc(s.cfg.StopWithin, s.end)
	defer timer.Stop()
	s.running.Wait()
	s.end()
	s.syncing.Wait()
	return s.depot.Close()
}
