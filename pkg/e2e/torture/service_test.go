//go:build linux

package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// kept returns a service, a shell that prints and waits, until the test ends.
func kept(t *testing.T, script string) *service {
	t.Helper()
	s, err := newService(t.TempDir(), "shell", "/bin/sh", []string{"-c", script}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1) // one: run returns once
	go func() { done <- s.run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

// started waits until the process has been started so often and printed.
func started(t *testing.T, s *service, times int, printed string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), late)
	defer cancel()
	if err := s.await(ctx, func() bool { return s.starts >= times }); err != nil {
		t.Fatalf("start %d: %v", times, err)
	}
	for !s.printed(printed) {
		if pause(ctx, 5*time.Millisecond) != nil {
			t.Fatalf("start %d did not print %q:\n%s", times, printed, s.out.last())
		}
	}
}

func TestKilledProcessIsStartedAgain(t *testing.T) {
	t.Parallel()
	s := kept(t, "sleep 600 & echo up; wait")
	started(t, s, 1, "up")
	if len(children(s.pid())) != 1 {
		t.Errorf("children of %d: %v", s.pid(), children(s.pid()))
	}
	if err := s.kill(); err != nil {
		t.Fatal(err)
	}
	started(t, s, 2, "up")
	if _, unexpected := s.counts(); unexpected != 0 {
		t.Errorf("%d ends were unexpected", unexpected)
	}
}

func TestProcessThatEndsByItselfIsCounted(t *testing.T) {
	t.Parallel()
	s := kept(t, "echo up; sleep 0.01; exit 3")
	started(t, s, 3, "up")
	if _, unexpected := s.counts(); unexpected < 2 {
		t.Errorf("%d ends were unexpected", unexpected)
	}
}

func TestHeldProcessIsNotStarted(t *testing.T) {
	t.Parallel()
	s := kept(t, "echo up; sleep 600")
	started(t, s, 1, "up")
	if err := s.hold(t.Context()); err != nil {
		t.Fatal(err)
	}
	brief, cancel := context.WithTimeout(t.Context(), 2*restartPause)
	defer cancel()
	if err := s.await(brief, func() bool { return s.process != nil }); err == nil {
		t.Error("it was started again")
	}
	if err := s.signal(syscall.SIGCONT); err == nil {
		t.Error("it was signalled")
	}
	s.release()
	started(t, s, 2, "up")
}

func TestVariablesLastForOneLife(t *testing.T) {
	t.Parallel()
	s := kept(t, `echo "set: $ONCE."; sleep 600`)
	started(t, s, 1, "set: .")
	start, err := s.restartWith(t.Context(), "ONCE=yes")
	if err != nil || start != 2 {
		t.Fatalf("start %d (%v)", start, err)
	}
	started(t, s, 2, "set: yes.")
	if err := s.endLife(t.Context(), start); err != nil {
		t.Fatal(err)
	}
	started(t, s, 3, "set: .")
}

func TestOutputKeepsItsEnd(t *testing.T) {
	t.Parallel()
	o, err := newOutput(t.TempDir() + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer o.close()
	for i := range 1000 {
		fmt.Fprintln(o, "line", i)
	}
	var first, last int
	if _, err := fmt.Sscanf(o.last(), "line %d\n", &first); err != nil || first < 950 || first > 981 {
		t.Errorf("it begins at %d (%v)", first, err)
	}
	if _, err := fmt.Sscanf(o.last()[len(o.last())-9:], "line %d\n", &last); err != nil || last != 999 {
		t.Errorf("it ends at %d (%v)", last, err)
	}
}

// printed reports whether the current life has printed the text recently.
func (s *service) printed(text string) bool {
	_, life, found := strings.Cut(s.out.last(), fmt.Sprintln(lifeMark, s.startNumber()))
	return found && strings.Contains(life, text)
}
