package quota

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/logboom/logboom/pkg/redis/redistest"
)

// load is goroutines that charge one project all the time.
type load struct {
	awake             *redistest.Awake
	accepted, refused atomic.Int64
	slow, slowest     atomic.Int64 // calls over 100 ms; the longest in ns
	stop              func()
}

const loadProject = "load~p"

var loadLimits = Limits{Rate: 1 << 40, DailyRecords: 1 << 40, MonthlyBytes: 1 << 40}

func startLoad(t *testing.T, l Limiter, pause time.Duration) *load {
	t.Helper()
	load := &load{awake: redistest.StartAwake(t)}
	ctx, cancel := context.WithCancel(context.Background())
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			tick := time.NewTicker(pause)
			defer tick.Stop()
			for ctx.Err() == nil {
				load.once(ctx, l)
				<-tick.C
			}
		})
	}
	load.stop = sync.OnceFunc(func() { cancel(); workers.Wait() })
	t.Cleanup(load.stop)
	return load
}

func (load *load) once(ctx context.Context, l Limiter) {
	began := load.awake.Time()
	refused := l.Check(ctx, loadProject, loadLimits)
	_, err := l.Charge(ctx, loadProject, loadLimits, 3, 3)
	took := load.awake.Time() - began
	if refused != nil || err != nil {
		load.refused.Add(1)
	} else {
		load.accepted.Add(3)
	}
	if took > 100*time.Millisecond {
		load.slow.Add(1)
	}
	load.slowest.Store(max(load.slowest.Load(), int64(took)))
}

// more waits until the load has had more batches accepted.
func (load *load) more(t *testing.T) {
	t.Helper()
	until := load.accepted.Load() + 1500
	eventually(t, func() bool { return load.accepted.Load() >= until })
}

// check ends the load and fails if calls were refused or took too long. A busy
// machine may delay some calls, and a Redis that stands still one call each time.
func (load *load) check(t *testing.T) {
	t.Helper()
	load.stop()
	if load.refused.Load() > 0 {
		t.Errorf("%d of %d were refused", load.refused.Load(), load.accepted.Load()/3)
	}
	if load.slow.Load()*50 > load.accepted.Load()/3 || load.slowest.Load() > int64(2*time.Second) {
		t.Errorf("%d of %d calls took over 100 ms, the longest %s", load.slow.Load(), load.accepted.Load()/3, time.Duration(load.slowest.Load()))
	}
}

// counted returns what Redis has counted as used of the project's day.
func counted(t *testing.T, client redis.UniversalClient) int64 {
	t.Helper()
	keys, err := client.Keys(t.Context(), "q:{"+loadProject+"}:daily_records:*").Result()
	if err != nil {
		t.Fatal(err)
	}
	var total int64
	for _, key := range keys {
		spent, err := client.HGet(t.Context(), key, "spent").Int64()
		if err != nil {
			t.Fatal(err)
		}
		back, err := client.HGet(t.Context(), key, "back").Int64()
		if err != nil {
			t.Fatal(err)
		}
		total += spent - back
	}
	return total
}

// journal is a log that can be read while it is written.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) count(text string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Count(j.text.String(), text)
}

func TestOutagesRefuseNothingAndEverythingIsCountedInTheEnd(t *testing.T) {
	t.Parallel()
	outages := map[string]func(t *testing.T, s *redistest.Server, l *Redis, load *load){
		"killed":  killed,
		"paused":  paused,
		"flushed": flushed,
	}
	for name, outage := range outages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			var log journal
			limiter := NewRedis(connect(t, server.URL(), defaultTimeout), Config{Now: ticking(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
			limiter.releaseTimeout = patient
			stop := start(t, limiter)
			load := startLoad(t, limiter, time.Millisecond)
			for range 2 {
				load.more(t)
				outage(t, server, limiter, load)
				load.more(t)
			}
			load.check(t)
			eventually(t, func() bool { return !limiter.Stats().Away })
			finish(t, limiter, stop)
			if got, want := counted(t, connect(t, server.URL(), patient)), load.accepted.Load(); got != want {
				t.Errorf("%d records are counted, want %d", got, want)
			}
			checkLogged(t, &log, limiter.Stats())
		})
	}
}

// finish ends a limiter, and fails unless Redis was told everything. If a call was not
// answered in time, finish repeats it.
func finish(t *testing.T, limiter *Redis, stop func()) {
	t.Helper()
	failures := limiter.Stats().Failures
	stop()
	eventually(t, func() bool {
		a := limiter.accounts.of(loadProject)
		if !a.hasUncounted() && !a.holdsLease() {
			return true
		}
		if limiter.Stats().Failures == failures {
			t.Fatalf("something is uncounted or leased at the end: %+v", limiter.Stats())
		}
		limiter.releaseAll(t.Context())
		return false
	})
}

// checkLogged fails unless each outage and its end was logged once.
func checkLogged(t *testing.T, log *journal, s Stats) {
	t.Helper()
	ended := int(s.Outages)
	if s.Away { // since the last calls
		ended--
	}
	if log.count("did not answer") != int(s.Outages) || log.count("answered again") != ended {
		t.Errorf("logged %d outages and %d ends for %+v", log.count("did not answer"), log.count("answered again"), s)
	}
}

func killed(t *testing.T, s *redistest.Server, l *Redis, load *load) {
	s.Kill(t)
	eventually(t, func() bool { return l.Stats().Away })
	load.more(t)
	s.Restart(t)
	eventually(t, func() bool { return !l.Stats().Away })
}

func paused(t *testing.T, s *redistest.Server, l *Redis, load *load) {
	s.Pause(t)
	eventually(t, func() bool { return l.Stats().Away })
	load.more(t)
	s.Resume(t)
	eventually(t, func() bool { return !l.Stats().Away })
}

func flushed(t *testing.T, s *redistest.Server, l *Redis, load *load) {
	client := connect(t, s.URL(), patient)
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	trips := l.Stats().RoundTrips
	eventually(t, func() bool { return l.Stats().RoundTrips > trips+1 })
}

func TestFlushedCountersAreRestoredByTheProcesses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := connect(t, server.URL(), patient)
	limits := Limits{DailyRecords: 1000}
	first := patientRedis(t, server, Config{Now: noon().Now})
	second := patientRedis(t, server, Config{Now: noon().Now})
	total := chargeAll(t, first, loadProject, limits, 50, 600)
	total += chargeAll(t, second, loadProject, limits, 50, 100)
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	total += chargeAll(t, second, loadProject, limits, 1, 2000)
	total += chargeAll(t, first, loadProject, limits, 1, 2000)
	if total != 1000 {
		t.Errorf("%d records were accepted, want 1000", total)
	}
}

func TestLostCountersAreNotComplete(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := connect(t, server.URL(), patient)
	limiters := []Limiter{NewMemory(Config{}), patientRedis(t, server, Config{})}
	for _, l := range limiters {
		if complete, err := l.Complete(t.Context()); err != nil || complete {
			t.Errorf("%T: new counters: %t, %v", l, complete, err)
		}
		if err := l.MarkComplete(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if complete, err := limiters[1].Complete(t.Context()); err != nil || complete {
		t.Errorf("flushed counters: %t, %v", complete, err)
	}
}

func TestUsedQuotaStaysUsedWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	limiter := patientRedis(t, server, Config{Now: noon().Now})
	limits := Limits{DailyRecords: 100}
	if !accepted(t, limiter, loadProject, limits, 60, 0) {
		t.Fatal("refused")
	}
	server.Kill(t)
	if got := chargeAll(t, limiter, loadProject, limits, 1, 200); got != 40 {
		t.Errorf("%d records were accepted, want the 40 that were left", got)
	}
	if !isExceeded(t, limiter.Check(t.Context(), loadProject, limits)) {
		t.Error("Check accepts after the quota was exceeded")
	}
	if s := limiter.Stats(); !s.Away || s.Outages != 1 || s.Fallbacks == 0 || s.RefusedDailyRecords == 0 {
		t.Errorf("%+v", s)
	}
}

// slowProxy forwards to a server and delays each answer.
type slowProxy struct {
	listener net.Listener
	delay    atomic.Int64
	done     sync.WaitGroup
}

func startSlowProxy(t *testing.T, target string) *slowProxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &slowProxy{listener: listener}
	p.done.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.done.Go(func() { p.forward(client, target) })
		}
	})
	t.Cleanup(func() { _ = listener.Close(); p.done.Wait() })
	return p
}

func (p *slowProxy) forward(client net.Conn, target string) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	p.done.Go(func() {
		defer func() { _ = server.Close() }()
		p.copy(server, client, false)
	})
	p.copy(client, server, true)
}

func (p *slowProxy) copy(to, from net.Conn, slowly bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if slowly {
			<-time.After(time.Duration(p.delay.Load()))
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func TestSlowRedisDelaysNoRequest(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := startSlowProxy(t, strings.TrimSuffix(strings.TrimPrefix(server.URL(), "redis://"), "/0"))
	limiter := NewRedis(connect(t, "redis://"+proxy.listener.Addr().String()+"/0", defaultTimeout), Config{Now: ticking()})
	limiter.releaseTimeout = patient
	stop := start(t, limiter)
	load := startLoad(t, limiter, time.Millisecond)
	for _, delay := range []time.Duration{0, 20 * time.Millisecond, 45 * time.Millisecond, 200 * time.Millisecond} {
		proxy.delay.Store(int64(delay))
		load.more(t)
	}
	eventually(t, func() bool { return limiter.Stats().Away })
	load.more(t)
	proxy.delay.Store(0)
	eventually(t, func() bool { return !limiter.Stats().Away })
	load.check(t)
	finish(t, limiter, stop)
	if got, want := counted(t, connect(t, server.URL(), patient)), load.accepted.Load(); got != want {
		t.Errorf("%d records are counted, want %d", got, want)
	}
}
