package engine_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"go.uber.org/goleak"

	"github.com/logboom/logboom/pkg/embedded/engine"
)

// start starts an engine for this test only.
func start(t testing.TB, config engine.Config) *engine.Engine {
	t.Helper()
	if config.DataDir == "" {
		config.DataDir = t.TempDir()
	}
	config.Logger, config.StartTimeout = slog.New(slog.DiscardHandler), startPatience
	e, err := engine.Start(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, e) })
	return e
}

func stop(t testing.TB, e *engine.Engine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := e.Stop(ctx); err != nil {
		t.Error(err)
	}
}

func kill(t testing.TB, pid int) {
	t.Helper()
	if pid <= 0 { // would kill this test's process group
		t.Fatal("no process to kill")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// durable holds the table settings with which an answered insert is on disk.
const durable = " SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, non_replicated_deduplication_window = 1000"

// journal records the results of the clients' batches.
type journal struct {
	sync.Mutex
	answered map[uint64]bool // by batch: whether the insert succeeded
}

func (j *journal) record(batch uint64, err error) {
	j.Lock()
	defer j.Unlock()
	j.answered[batch] = err == nil
}

func (j *journal) successes() (n int) {
	j.Lock()
	defer j.Unlock()
	for _, ok := range j.answered {
		if ok {
			n++
		}
	}
	return n
}

func TestAnsweredInsertsSurviveKills(t *testing.T) {
	t.Parallel()
	const perBatch, clients, kills = 1000, 4, 3
	e := start(t, engine.Config{})
	conn := dial(t, e.URL())
	exec(t, conn, "CREATE TABLE t (batch UInt64, a UInt64) ENGINE = MergeTree ORDER BY (batch, a)"+durable)
	j := &journal{answered: map[uint64]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var work sync.WaitGroup
	for client := range uint64(clients) {
		work.Go(func() {
			for i := uint64(0); ctx.Err() == nil; i++ {
				batch := client<<32 | i
				err := conn.Exec(ctx, "INSERT INTO t SELECT {b:UInt64}, number FROM numbers("+strconv.Itoa(perBatch)+")", clickhouse.Named("b", batch))
				if err != nil {
					err = sendBatch(ctx, conn, batch, perBatch) // uses the other way to insert while the engine restarts
				}
				j.record(batch, err)
			}
		})
	}
	for range kills {
		pid, before := e.PID(), j.successes()
		eventually(t, "inserts succeed", func() bool { return j.successes() > before+10 })
		kill(t, pid)
		eventually(t, "the engine has restarted", func() bool {
			now := e.PID()
			return now != 0 && now != pid
		})
	}
	cancel()
	work.Wait()
	checkBatches(t, conn, j, perBatch)
}

func sendBatch(ctx context.Context, conn clickhouse.Conn, id uint64, n int) error {
	ctx = clickhouse.Context(ctx, clickhouse.WithColumnNamesAndTypes([]clickhouse.ColumnNameAndType{{Name: "batch", Type: "UInt64"}, {Name: "a", Type: "UInt64"}}))
	batch, err := conn.PrepareBatch(ctx, "INSERT INTO t")
	if err != nil {
		return err
	}
	for i := range n {
		if err := batch.Append(id, uint64(i)); err != nil {
			return err
		}
	}
	return batch.Send()
}

// checkBatches checks that every answered batch is stored completely. A batch
// without an answer may be stored or not. Two statements sent each batch, so it
// may be stored twice.
func checkBatches(t *testing.T, conn clickhouse.Conn, j *journal, perBatch uint64) {
	t.Helper()
	result, err := conn.Query(context.Background(), "SELECT batch, count() FROM t GROUP BY batch")
	if err != nil {
		t.Fatal(err)
	}
	defer result.Close()
	stored := map[uint64]uint64{}
	for result.Next() {
		var batch, n uint64
		if err := result.Scan(&batch, &n); err != nil {
			t.Fatal(err)
		}
		if n%perBatch != 0 {
			t.Errorf("batch %x has %d rows: it was stored in part", batch, n)
		}
		stored[batch] = n
	}
	if err := result.Err(); err != nil {
		t.Fatal(err)
	}
	for batch, ok := range j.answered {
		if ok && stored[batch] == 0 {
			t.Errorf("batch %x was answered, but is not stored", batch)
		}
	}
	t.Logf("%d batches answered, %d sent", j.successes(), len(j.answered))
}

func TestAddressStaysTheSameAfterARestart(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{})
	conn := dial(t, e.URL())
	before, address := e.PID(), e.URL()
	kill(t, before)
	eventually(t, "the engine answers again", func() bool {
		return conn.Ping(context.Background()) == nil && e.PID() != before
	})
	if e.URL() != address {
		t.Errorf("the address changed from %s to %s", address, e.URL())
	}
}

func TestStoppedEngineKeepsItsData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := start(t, engine.Config{DataDir: dir, Password: "first password"})
	conn := dial(t, first.URL())
	exec(t, conn, "CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a")
	exec(t, conn, "INSERT INTO t SELECT number FROM numbers(1000)")
	stop(t, first)
	if first.PID() != 0 {
		t.Error("the engine's process still runs after Stop")
	}
	second := start(t, engine.Config{DataDir: dir})
	if n := number(t, dial(t, second.URL()), "SELECT count() FROM t"); n != 1000 {
		t.Errorf("found %d rows", n)
	}
}

// The statement runs until the client has read its whole result.
func TestStopLetsRunningStatementsFinish(t *testing.T) {
	t.Parallel()
	const n = 5_000_000 // 39 MB, far more than the buffers of a connection hold
	e := start(t, engine.Config{DrainTimeout: patience})
	running := send(t, call{body: strings.NewReader(fmt.Sprintf("SELECT number FROM numbers(%d)", n))}.request(t, e.URL()))
	defer running.Body.Close()
	idle := idleConnection(t, e.URL())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop(t, e)
	}()
	if rest, err := io.ReadAll(idle); err != nil || len(rest) > 0 { // the server closes the connection when it begins to stop
		t.Errorf("the idle connection received %q, error %v", rest, err)
	}
	select {
	case <-stopped:
		t.Error("the engine stopped while a statement ran")
	default:
	}
	lines, err := countLines(running.Body)
	if err != nil || lines != n {
		t.Errorf("read %d of %d rows, error %v", lines, n, err)
	}
	<-stopped
}

// idleConnection opens a connection, sends a ping on it and reads the response.
func idleConnection(t *testing.T, address string) net.Conn {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET /ping HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(response.Body); err != nil || string(body) != "Ok.\n" {
		t.Fatalf("the ping was answered %q, error %v", body, err)
	}
	return conn
}

func countLines(from io.Reader) (n int, err error) {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		n++
	}
	return n, lines.Err()
}

func TestStopKillsStatementsThatDoNotFinish(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{DrainTimeout: 100 * time.Millisecond})
	conn := dial(t, e.URL())
	answer := make(chan error, 1)
	go func() {
		answer <- conn.Exec(context.Background(), "SELECT count() FROM numbers(1000000000000) WHERE NOT ignore(sipHash64(number))")
	}()
	running := dial(t, e.URL())
	eventually(t, "the query runs", func() bool {
		return number(t, running, "SELECT count() FROM system.processes WHERE query LIKE '%sipHash64(number))'") == 1
	})
	stop(t, e)
	if err := <-answer; err == nil {
		t.Error("an endless query returned no error")
	}
}

func TestStopWithACancelledContextKillsTheProcess(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := e.Stop(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if e.PID() != 0 {
		t.Error("the engine's process still runs after Stop")
	}
}

func TestFolderIsUsedByOneEngineOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := start(t, engine.Config{DataDir: dir})
	_, err := engine.Start(context.Background(), engine.Config{DataDir: dir, LockTimeout: time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "in use by process "+strconv.Itoa(first.PID())) {
		t.Errorf("error is %v, want one that names process %d", err, first.PID())
	}
}

func TestOverloadIsRefusedAndTheEngineRecovers(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{Statements: 1})
	ctx, cancel := context.WithCancel(context.Background())
	var waiting sync.WaitGroup
	conn := dial(t, e.URL(), func(o *clickhouse.Options) { o.MaxOpenConns = 80; o.MaxIdleConns = 80 })
	refused := make(chan error, 80) // capacity 80: the number of clients
	for range 80 {
		waiting.Go(func() {
			err := conn.Exec(ctx, "SELECT count() FROM numbers(1000000000000) WHERE NOT ignore(sipHash64(number))")
			if !errors.Is(err, context.Canceled) {
				refused <- err
			}
		})
	}
	var problem *clickhouse.Exception
	if err := <-refused; !errors.As(err, &problem) || problem.Code != 202 {
		t.Errorf("error is %v, want code 202", err)
	}
	cancel()
	waiting.Wait()
	eventually(t, "the engine answers after the load", func() bool {
		return conn.Ping(context.Background()) == nil
	})
}

func TestQueryThatNeedsTooMuchMemoryFailsAlone(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{MemoryLimit: 512 << 20})
	conn := dial(t, e.URL())
	pid := e.PID()
	for _, greedy := range []string{
		"SELECT groupArray(number) FROM numbers(1000000000)",
		"SELECT number, repeat('x', 100) FROM numbers(1000000000) FORMAT JSON", // buffered completely before it is sent
	} {
		var problem *clickhouse.Exception
		if err := conn.Exec(context.Background(), greedy); !errors.As(err, &problem) || problem.Code != 241 {
			t.Errorf("%s: error is %v, want code 241", greedy, err)
		}
	}
	var n uint64
	eventually(t, "the engine has free memory again", func() bool {
		return conn.QueryRow(context.Background(), "SELECT count() FROM numbers(10)").Scan(&n) == nil
	})
	if n != 10 || e.PID() != pid {
		t.Errorf("the engine restarted, or the query returned %d, want 10", n)
	}
}

// orphanFolder is the environment variable that makes this binary a parent
// process which starts an engine and waits until it is killed. Its value is the
// data folder.
const orphanFolder = "LOGBOOM_TEST_ORPHAN"

func runParent(dir string) {
	e, err := engine.Start(context.Background(), engine.Config{DataDir: dir, StartTimeout: startPatience})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(e.URL())
	select {}
}

func TestChildExitsWhenItsParentIsKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	parent := osexec.Command(os.Args[0])
	parent.Env = append(os.Environ(), orphanFolder+"="+dir)
	parent.Stderr = os.Stderr
	output, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = parent.Process.Kill() }) // in case the test fails before it kills the parent
	address, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address = strings.TrimSpace(address)
	sql(t, address, "CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a"+durable)
	sql(t, address, "INSERT INTO t VALUES (7)")
	kill(t, parent.Process.Pid)
	_ = parent.Wait() // always an error: the parent was killed
	// The folder can be locked only after the child has exited.
	e := start(t, engine.Config{DataDir: dir, LockTimeout: patience})
	if n := number(t, dial(t, e.URL()), "SELECT sum(a) FROM t"); n != 7 {
		t.Errorf("sum is %d, want 7", n)
	}
}

func TestStopLeavesNoGoroutine(t *testing.T) {
	before := goleak.IgnoreCurrent()
	e, err := engine.Start(context.Background(), engine.Config{DataDir: t.TempDir(), StartTimeout: startPatience, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	kill(t, e.PID())
	stop(t, e)
	eventually(t, "no goroutine is left", func() bool { // each check takes half a second
		if err = goleak.Find(before); err != nil {
			t.Log(err)
		}
		return err == nil
	})
}
