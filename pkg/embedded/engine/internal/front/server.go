package front

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/netutil"

	"github.com/logboom/logboom/pkg/embedded/engine/internal/chdb"
)

// Config configures a Server. Zero values mean the defaults.
type Config struct {
	// Password of the only user, `default`.
	Password string
	// Statements is how many statements run at once. Default 8.
	Statements int
	// Waiting is how many more statements may wait. Default 64.
	Waiting int
	// WaitTimeout is how long they wait before they are refused. Default 10 s.
	WaitTimeout time.Duration
	// MaxBodyBytes bounds a request's body, both compressed and decompressed.
	// Default 1 GiB.
	MaxBodyBytes int64
	// BodyTimeout is how long the client may take to send the next bytes of a
	// body. Default 60 s.
	BodyTimeout time.Duration
	// Logger receives the server's own warnings. Default: they are discarded.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	setDefault(&c.Statements, 8)
	setDefault(&c.Waiting, 64)
	setDefault(&c.WaitTimeout, 10*time.Second)
	setDefault(&c.MaxBodyBytes, 1<<30)
	setDefault(&c.BodyTimeout, 60*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func setDefault[T comparable](value *T, otherwise T) {
	var zero T
	if *value == zero {
		*value = otherwise
	}
}

const (
	headLimit      = 1 << 20 // bytes of a body that are read before the engine is asked
	maxConnections = 256
	writeTimeout   = 60 * time.Second // for each piece of an answer
	maxHeaderBytes = 1 << 20          // ClickHouse's http_max_uri_size; parameters travel in the URL
)

// Server serves one engine.
type Server struct {
	config Config
	engine *chdb.Engine
	slots  *slots
	http   *http.Server
	cancel context.CancelFunc // of all statements, if draining takes too long
}

// New prepares a server; Serve starts it.
func New(engine *chdb.Engine, config Config) *Server {
	config = config.withDefaults()
	s := &Server{config: config, engine: engine, slots: newSlots(config.Statements, config.Waiting, config.WaitTimeout)}
	base, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.http = &http.Server{
		Handler:           s.routes(),
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       90 * time.Second,
		WriteTimeout:      writeTimeout, // answers to statements extend it for each piece
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(config.Logger.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return base },
	}
	return s
}

// Serve answers the listener's requests until Shutdown.
func (s *Server) Serve(listener net.Listener) error {
	err := s.http.Serve(netutil.LimitListener(listener, maxConnections))
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Shutdown accepts no new requests and waits for the running ones. If ctx ends
// first, it kills the running queries and waits for their end. Inserts whose
// bodies have arrived always finish.
func (s *Server) Shutdown(ctx context.Context) error {
	defer s.cancel()
	if err := s.http.Shutdown(ctx); err == nil {
		return nil
	}
	s.cancel()
	err := s.http.Close()
	s.slots.drain()
	return err
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/ping", ok)
	mux.HandleFunc("/replicas_status", ok)
	mux.HandleFunc("/{$}", s.statement)
	mux.HandleFunc("/", unknownPath)
	return mux
}

func ok(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "Ok.\n") }

func unknownPath(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "no such path: send statements to / and health checks to /ping; name the database with ?database=", http.StatusNotFound)
}

// statement answers a request that contains one statement.
func (s *Server) statement(w http.ResponseWriter, r *http.Request) {
	out := &reply{w: w, started: time.Now()}
	if err := s.run(out, r); err != nil {
		out.fail(err)
	}
}

// run reads the statement of a request, runs it and sends its result.
func (s *Server) run(out *reply, r *http.Request) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return raise(codeBadArguments, "BAD_ARGUMENTS", "the URL's query is malformed")
	}
	if len(query) == 0 && r.Method == http.MethodGet {
		ok(out.w, r)
		return nil
	}
	if err := s.authorize(r, query); err != nil {
		return err
	}
	req, err := admit(r, query)
	if err != nil {
		return err
	}
	out.req = req
	from := s.openBody(out.w, r, req.unframe)
	defer from.drain()
	job, err := s.receive(req, from)
	if err != nil {
		return err
	}
	return s.execute(r.Context(), out, job)
}

// admit parses the request and refuses what the embedded engine cannot do.
func admit(r *http.Request, query url.Values) (*request, error) {
	if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/") {
		return nil, raise(codeNotImplemented, "NOT_IMPLEMENTED", "the embedded engine has no external tables: insert the rows into a table instead")
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, raise(codeUnknownCompression, "UNKNOWN_COMPRESSION_METHOD", "the embedded engine does not decode Content-Encoding %q: send the body as it is, or in ClickHouse's own compressed frames with ?decompress=1", encoding)
	}
	req, err := parse(r, query)
	if err != nil {
		return nil, err
	}
	if _, given := req.settings["readonly"]; !given && r.Method != http.MethodPost && r.Method != http.MethodPut {
		req.settings["readonly"] = "2" // as in ClickHouse, a GET request changes nothing
	}
	return req, nil
}
