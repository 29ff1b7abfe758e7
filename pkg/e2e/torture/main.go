//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/logboom/logboom/pkg/embedded/engine"
)

const (
	exitViolated  = 1
	exitBadOption = 2
)

// innerFolder is the environment variable of the process that does the run, with
// the folder for its files. The process that the user started creates the folder,
// waits, and removes it.
const innerFolder = "LOGBOOM_TORTURE_FOLDER"

// options are the flags.
type options struct {
	duration time.Duration
	calm     time.Duration
	faults   string
	seed     uint64
	records  int
	rate     int
	senders  int
	away     time.Duration
	rounds   int
	control  control
	soak     bool
	keep     bool
	list     bool
}

func main() {
	signal.Ignore(syscall.SIGXFSZ) // for errors-write: the engine must get the error, not end by the signal
	engine.Main()
	os.Exit(dispatch(os.Args[1:]))
}

// dispatch runs the part of the program that the arguments name.
func dispatch(args []string) int {
	switch {
	case len(args) == 1 && args[0] == engineMode:
		return exitCode(runEngine())
	case len(args) == 2 && args[0] == controlMode:
		return exitCode(runControl(control(args[1])))
	}
	o, err := parseOptions(args, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		return exitBadOption
	}
	if o.list {
		for _, f := range (&tools{}).all() {
			fmt.Println(f.Name())
		}
		return 0
	}
	if folder := os.Getenv(innerFolder); folder != "" {
		return inner(o, folder)
	}
	return outer(o, args)
}

func exitCode(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// parseOptions parses the flags and sets the defaults that depend on others.
func parseOptions(args []string, out io.Writer) (options, error) {
	var o options
	var stand string
	flags := flag.NewFlagSet("torture", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.DurationVar(&o.duration, "duration", 10*time.Minute, "how long to send and to inflict faults; one round of all faults takes about 8m")
	flags.DurationVar(&o.calm, "calm", 2*time.Second, "longest pause between two faults; the shortest is half of it")
	flags.StringVar(&o.faults, "faults", "", "names, groups such as kills or failpoints, all, or none; -name leaves one out; default: all, or those that the control fails at")
	flags.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "seed of the order of faults and of the load; timing still differs")
	flags.IntVar(&o.records, "records", 10_000, "minimum number of accepted records")
	flags.IntVar(&o.rate, "rate", 3000, "records per second")
	flags.IntVar(&o.senders, "senders", 8, "number of connections that send")
	flags.IntVar(&o.rounds, "rounds", 0, "minimum number of rounds of all chosen faults; the run continues until then, and until each had an effect, for at most 3 times -duration and 15 minutes")
	flags.DurationVar(&o.away, "away", 20*time.Second, "how long away-engine and away-redis stop an engine")
	flags.StringVar(&stand, "control", "", "replace the writer by a flawed one, which must be caught: naive or token")
	flags.BoolVar(&o.soak, "soak", false, "inflict nothing in the last fifth of the run, and check the memory of the processes and the size of the queue at the end")
	flags.BoolVar(&o.keep, "keep", false, "keep the folder with logs and data")
	flags.BoolVar(&o.list, "list", false, "list the faults")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.control = control(stand); o.faults == "" {
		o.faults = "all"
		if o.control != "" {
			o.faults = faultsOf(o.control)
		}
	}
	return o, o.validate(flags.Args())
}

func (o *options) validate(rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("%q is not an option: all options begin with -", rest[0])
	}
	if !slices.Contains([]control{"", naive, byToken}, o.control) {
		return fmt.Errorf("-control %q: want naive or token", o.control)
	}
	if o.duration < time.Second || o.duration > 24*time.Hour {
		return fmt.Errorf("-duration %s is not within 1s and 24h", o.duration)
	}
	if o.away < time.Second || o.away > time.Hour {
		return fmt.Errorf("-away %s is not within 1s and 1h", o.away)
	}
	if o.calm < 0 || o.rate < 1 || o.rate > 100_000 || o.senders < 1 || o.senders > 256 || o.records < 0 || o.rounds < 0 {
		return errors.New("-calm, -rounds and -records must not be negative, -rate must be 1 to 100000, -senders 1 to 256")
	}
	_, err := chosen((&tools{}).all(), o.faults)
	return err
}

// outer runs the torture in a process of its own, with its own mount namespace if
// disks are mounted, and removes its files however it ends.
func outer(o options, args []string) int {
	folder, err := os.MkdirTemp("", "logboom-torture-")
	if err != nil {
		return exitCode(err)
	}
	if !o.keep {
		defer os.RemoveAll(folder)
	}
	self, err := os.Executable()
	if err != nil {
		return exitCode(err)
	}
	faults, err := chosen((&tools{}).all(), o.faults)
	if err != nil {
		return exitCode(err)
	}
	signal.Ignore(syscall.SIGINT) // the terminal sends it to the run as well
	terminated, forget := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer forget()
	run := exec.CommandContext(terminated, self, args...)
	run.Cancel = func() error { return run.Process.Signal(syscall.SIGTERM) }
	run.Env = append(os.Environ(), innerFolder+"="+folder)
	run.Stdout, run.Stderr = os.Stdout, os.Stderr
	runtime.LockOSThread() // Linux sends the death signal when this thread ends
	run.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if disks(faults) && os.Geteuid() == 0 { // without root the run reports what is missing
		run.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	}
	err = run.Run()
	if o.keep {
		fmt.Println("kept:", folder)
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return max(exit.ExitCode(), exitViolated)
	}
	return exitCode(err)
}

// inner does the run.
func inner(o options, folder string) int {
	ctx, forget := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer forget()
	fmt.Printf("seed %d, folder %s\n", o.seed, folder)
	r, err := newRun(o, folder, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		return exitViolated
	}
	result, err := r.whole(ctx)
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		return exitViolated
	}
	result.write(os.Stdout)
	return result.conclude(os.Stdout, filepath.Base(folder))
}

// conclude prints the verdict and returns the exit code. A control must be caught;
// any other run must be clean.
func (r *report) conclude(out io.Writer, name string) int {
	o := r.run.options
	switch {
	case o.control != "" && r.caught():
		fmt.Fprintf(out, "\n%s: the %s writer was caught, as it must be\n", name, o.control)
		return 0
	case o.control != "":
		fmt.Fprintf(out, "\n%s: the %s writer was not caught: the harness is blind, or the run was too short (seed %d)\n", name, o.control, o.seed)
		return exitViolated
	case r.violated():
		fmt.Fprintf(out, "\n%s: violated (seed %d)\n", name, o.seed)
		return exitViolated
	}
	if len(r.reported) > 0 {
		fmt.Fprintf(out, "\n%s: everything is stored exactly once, but for what the disk lost or doubled and the audit reports\n", name)
		return 0
	}
	fmt.Fprintf(out, "\n%s: everything is stored exactly once\n", name)
	return 0
}
