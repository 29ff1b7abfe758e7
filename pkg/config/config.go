// Package config reads a process's settings from flags and environment
// variables. Each flag has one variable: --nats-url is LOGBOOM_NATS_URL.
//
// Each process declares one struct (settings.go has the shared parts), passes it
// to Command, and logs it with Settings.Log. A setting that can hold a credential
// must be a Secret or a URL: values of every other type are logged as they are.
package config

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/alecthomas/kong"
)

// envPrefix begins the name of every environment variable that is a setting.
const envPrefix = "LOGBOOM"

// Exit codes of a process that does not start.
const (
	ExitOK          = 0 // help was asked for
	ExitBadSettings = 2
)

// ErrHelp means that help was asked for and has been printed.
var ErrHelp = errors.New("help was printed")

// Settings is a parsed command line: the command, and every setting with its
// value.
type Settings struct {
	Command string
	flags   []*kong.Flag
}

// Parse fills cfg, a pointer to a struct with kong tags, from args (without the
// program's name) and the environment. It calls Validate of every part that has
// it. The error names the setting and holds no secret. ErrHelp means that help
// was written to out.
func Parse(name, description string, cfg any, args []string, out io.Writer) (*Settings, error) {
	helped := false
	parser, err := kong.New(cfg,
		kong.Name(name),
		kong.Description(description),
		kong.DefaultEnvars(envPrefix),
		kong.Writers(out, out),
		kong.Exit(func(int) { helped = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		return nil, fmt.Errorf("settings of %s: %w", name, err)
	}
	parsed, err := parser.Parse(args)
	if helped {
		return nil, ErrHelp
	}
	if err != nil {
		return nil, err
	}
	return &Settings{Command: parsed.Command(), flags: parsed.Flags()}, nil
}

// Command is Parse for a main function: it parses the command line, and prints
// the error or the help. If ok is false, the process must exit with the code.
func Command(name, description string, cfg any) (settings *Settings, code int, ok bool) {
	settings, err := Parse(name, description, cfg, os.Args[1:], os.Stdout)
	if errors.Is(err, ErrHelp) {
		return nil, ExitOK, false
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return nil, ExitBadSettings, false
	}
	return settings, 0, true
}

// Log writes one line with every setting. Secrets are masked.
func (s *Settings) Log(logger *slog.Logger) {
	attrs := make([]any, 0, len(s.flags))
	for _, flag := range s.flags {
		if flag.Name == "help" {
			continue
		}
		text := ""
		if flag.Target.CanInterface() {
			text = fmt.Sprint(flag.Target.Interface())
		}
		attrs = append(attrs, slog.String(flag.Name, text))
	}
	logger.Info("settings read", attrs...)
}

// Variable returns the environment variable of a flag: LOGBOOM_NATS_URL for
// nats-url.
func Variable(flag string) string {
	return envPrefix + "_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// invalid returns the error for a flag's value, in the form of all of them.
func invalid(flag, format string, args ...any) error {
	return fmt.Errorf("--%s (%s): %s", flag, Variable(flag), fmt.Sprintf(format, args...))
}
