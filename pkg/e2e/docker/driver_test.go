package docker

import (
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// long is the number of the line that is 40 KiB long. Docker's driver cuts it. The
// pieces can be joined only if one request contains all of them, so the line is far
// from the 1000th, after which a request ends.
const long = 203

// whole runs a container to its end and checks that all its output arrived
// unchanged and that docker logs shows it too.
func (w *shared) whole(t *testing.T, driver []string, application string, arguments ...string) []line {
	t.Helper()
	const n = 1500
	since := time.Now()
	id := w.engine.run(t, driver, append([]string{fmt.Sprint("-lines=", n), fmt.Sprint("-long=", long)}, arguments...)...)
	w.engine.end(t, id, n)
	if printed := w.engine.printed(t, id); printed != n {
		t.Errorf("docker logs shows %d lines, %d were printed", printed, n)
	}
	all := w.logboom.await(t, since, n)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if one.Application != application || one.Host != host {
			t.Fatalf("%.60s: application %q, host %q; want %q, %q", one.Data, one.Application, one.Host, application, host)
		}
	}
	if got := all[long-1].Data; strings.Count(got, "0123456789abcdef") != 40<<10/16 {
		t.Errorf("the long line came as %d bytes", len(got))
	}
	return all
}

// described checks the container's properties in a line.
func described(t *testing.T, all []line) {
	t.Helper()
	for i, one := range all {
		source := "stdout"
		if (i+1)%10 == 0 {
			source = "stderr"
		}
		if one.Source != source || one.Metadata["team"] != "shop" {
			t.Fatalf("%.60s: source %q, metadata %v; want %s and team=shop", one.Data, one.Source, one.Metadata, source)
		}
	}
}

func TestBuiltInDriverDeliversEachLineOnce(t *testing.T) {
	w := need(t)
	options := func(more ...string) []string { return w.logboom.options("splunk", "splunk", more...) }
	t.Run("inline", func(t *testing.T) {
		described(t, w.whole(t, options("tag=inline"), "inline"))
	})
	t.Run("gzip", func(t *testing.T) {
		described(t, w.whole(t, options("tag=packed", "splunk-gzip=true"), "packed"))
	})
	t.Run("raw", func(t *testing.T) {
		// The format raw sends tag, attributes and line as one text. Docker builds it
		// in one buffer for both outputs of a container, so a line of stderr may
		// overwrite one of stdout. This container prints only to stdout.
		if all := w.whole(t, options("tag=raw", "splunk-format=raw"), "bootstrap", "-stderr-every=0"); !strings.HasPrefix(all[0].Data, "raw team=shop line 00000001") {
			t.Errorf("%+v", all[0])
		}
	})
	t.Run("json", func(t *testing.T) {
		all := w.whole(t, options("tag=json", "splunk-format=json"), "json", "-json")
		described(t, all)
		if all[0].Data != "line 00000001" || !strings.EqualFold(all[0].Severity, "warn") {
			t.Errorf("%+v: message and level are not lifted", all[0])
		}
	})
}

func TestPluginDeliversEachLineOnce(t *testing.T) {
	w := need(t)
	for _, compression := range []string{"gzip", "zstd", "none"} {
		t.Run(compression, func(t *testing.T) {
			described(t, w.whole(t, w.logboom.options("collector", "collector", "tag=plugin/{{index (split .ImageName \":\") 1}}", "collector-compression="+compression), "plugin/test"))
		})
	}
}

// A line longer than a record arrives in marked parts.
func TestPluginCutsAndMarksAnEndlessLine(t *testing.T) {
	w := need(t)
	since := time.Now()
	id := w.engine.run(t, w.logboom.options("collector", "collector"), "-lines=3", "-long=1", "-long-bytes=1600000")
	w.engine.end(t, id, 3)
	var parts []line
	eventually(t, "two parts and the two lines after them are readable", func() bool {
		parts = w.logboom.lines(t, since)
		return len(parts) == 4
	})
	bytes := 0
	for _, part := range parts[:2] {
		bytes += len(part.Data)
		first := strings.HasPrefix(part.Data, "line 00000001 ")
		if part.Metadata["partial_id"] == "" || (part.Metadata["partial_ordinal"] == "1") != first || (part.Metadata["partial_last"] == "false") != first {
			t.Errorf("%.30s: metadata %v", part.Data, part.Metadata)
		}
	}
	if want := len("line 00000001 ") + 1_600_000; bytes != want {
		t.Errorf("the parts are %d bytes, want %d", bytes, want)
	}
}

func TestPluginReadsATokenFromAFile(t *testing.T) {
	w := need(t)
	files := filepath.Join(w.folder, "files")
	if err := os.MkdirAll(files, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(files, "token"), []byte(w.logboom.token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.engine.docker(t, "plugin", "disable", "collector:latest")
	w.engine.docker(t, "plugin", "set", "collector:latest", "files.source="+files)
	w.engine.docker(t, "plugin", "enable", "collector:latest")
	options := []string{"--log-driver=collector", "--log-opt=collector-url=" + w.logboom.ingest, "--log-opt=collector-token-file=/files/token", "--log-opt=labels=team", "--log-opt=tag=file"}
	described(t, w.whole(t, options, "file"))
}

func TestPluginRefusesWrongOptionsByName(t *testing.T) {
	w := need(t)
	for _, option := range []string{"collector-urll=x", "collector-batch-lines=none", "splunk-url=http://127.0.0.1", "tag={{.Nope}}", "labels-regex=("} {
		out, err := w.engine.try(append(append([]string{"run", "-d", "--rm", "--network=none"}, w.logboom.options("collector", "collector", option)...), image, "-lines=1")...)
		if name, _, _ := strings.Cut(option, "="); err == nil || !strings.Contains(out, name) || strings.Contains(out, w.logboom.token) {
			t.Errorf("%s: %v: %s", option, err, out)
		}
	}
}

func TestPluginLosesNothingWhileLogboomIsAway(t *testing.T) {
	w := need(t)
	since := time.Now()
	w.logboom.stop()
	id := w.engine.run(t, w.logboom.options("collector", "collector", "tag=away"), "-lines=3000", "-every=500us")
	w.engine.end(t, id, 3000) // it ended although no process received its lines
	if err := w.logboom.start(); err != nil {
		t.Fatal(err)
	}
	w.logboom.await(t, since, 3000)
}

func TestKilledPluginLosesAndDoublesNothing(t *testing.T) {
	w := need(t)
	since := time.Now()
	id := w.engine.run(t, w.logboom.options("collector", "collector", "tag=killed"), "-lines=4000", "-every=1ms", "-long=700")
	w.engine.killPlugin(t)
	w.engine.end(t, id, 4000)
	w.logboom.await(t, since, 4000)
}

// After dockerd was stopped or killed and restarted, all lines that it had read are
// delivered: as many as its own copy has, or one more.
func TestRestartedEngineLosesNothingThatThePluginHadRead(t *testing.T) {
	w := need(t)
	for name, signal := range map[string]syscall.Signal{"asked": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			since := time.Now()
			w.logboom.stop() // so that all lines are in the spool
			id := w.engine.run(t, w.logboom.options("collector", "collector", "tag="+name), "-every=1ms")
			eventually(t, "it has printed something", func() bool { return w.engine.printed(t, id) > 500 })
			w.engine.signal(signal)
			if err := w.engine.start(); err != nil {
				t.Fatal(err)
			}
			if err := w.logboom.start(); err != nil {
				t.Fatal(err)
			}
			printed := w.engine.printed(t, id)
			var all []line
			eventually(t, fmt.Sprintf("%d lines are readable", printed), func() bool {
				all = w.logboom.lines(t, since)
				return len(all) >= printed
			})
			gapless(t, all)
		})
	}
}

// gapless checks that all lines up to the last of each output arrived once. dockerd
// reads the two outputs separately, so a kill may cut them at different lines.
func gapless(t *testing.T, all []line) {
	t.Helper()
	stdout, stderr := 0, 0
	for _, one := range all {
		last := &stdout
		next := stdout + 1
		if next%10 == 0 {
			next++
		}
		if one.Number%10 == 0 {
			last, next = &stderr, stderr+10
		}
		if one.Number != next {
			t.Fatalf("number %d comes after %d of the same output, want %d", one.Number, *last, next)
		}
		*last = next
	}
}

func TestStopIsNotDelayedByAnOutage(t *testing.T) {
	w := need(t)
	// The smallest of several delays: each contains the plugin's own delay, but not
	// each that of a busy machine.
	stop := func(driver []string) time.Duration {
		least := time.Duration(math.MaxInt64)
		for range 3 {
			id := w.engine.run(t, driver, "-every=1ms")
			eventually(t, "it prints", func() bool { return w.engine.printed(t, id) > 0 })
			began := time.Now()
			w.engine.docker(t, "stop", id)
			least = min(least, time.Since(began))
		}
		return least
	}
	usual := stop([]string{"--log-driver=json-file"})
	w.logboom.stop()
	with := stop(w.logboom.options("collector", "collector", "tag=stop"))
	t.Logf("docker stop: %s with json-file, %s with the plugin while Logboom is away", usual, with)
	if with > usual+5*time.Second {
		t.Errorf("docker stop took %s, and %s without the plugin", with, usual)
	}
	if err := w.logboom.start(); err != nil {
		t.Fatal(err)
	}
}

func TestCollectorServesALegacySocket(t *testing.T) {
	w := need(t)
	name := fmt.Sprintf("collector-%d", os.Getpid()) // does not replace an existing socket
	socket := filepath.Join("/run/docker/plugins", name+".sock")
	command := exec.Command(filepath.Join(w.folder, "plugin", "rootfs", "collector"), "--socket="+socket, "--spool-dir="+filepath.Join(t.TempDir(), "spool"))
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM) // it may have ended already
		_ = command.Wait()                          // its output says why
	})
	eventually(t, "it answers on its socket", func() bool {
		conn, err := net.Dial("unix", socket)
		return err == nil && conn.Close() == nil
	})
	described(t, w.whole(t, w.logboom.options(name, "collector", "tag=legacy"), "legacy"))
}
