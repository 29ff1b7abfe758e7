// Package config reads a process's settings from flags and environment
// variables, one to one: --nats-url is LOGBOOM_NATS_URL.
//
// Each process declares one struct (see settings.go for the shared parts),
// hands it to Parse, and prints it with Log. What a newcomer would get wrong:
// a setting that can hold a credential must be a Secret or a URL, because
// every other type is printed as it is at start.
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

// envPrefix starts the name of every environment variable that is a setting.
const envPrefix = "LOGBOOM"

// Exit codes of a process that does not come to run.
const (
	ExitOK          = 0 // help was asked for
	ExitBadSettings = 2
)

// ErrHelp says that help was asked for and has been printed; the process has
// nothing more to do.
var ErrHelp = errors.New("help was printed")

// Validator is a part of the settings that checks itself. The error names the
// setting as a flag (--shards), without the value of a secret.
type Validator interface {
	Validate() error
}

// Settings is a parsed command line: which command was asked for, and every
// setting with its value.
type Settings struct {
	Command string
	flags   []*kong.Flag
}

// Parse fills cfg, a pointer to a struct with kong tags, from args (without
// the program's name) and the environment. The error names what is wrong and
// is fit to be shown; ErrHelp means that help went to out.
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

// Command is Parse for a main: it reads the command line, and prints what is
// wrong or the help. ok is false where the process is to end with the code.
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

// Log writes one line with every setting, secrets masked.
func (s *Settings) Log(logger *slog.Logger) {
	attrs := make([]any, 0, len(s.flags))
	for _, flag := range s.flags {
		if flag.Name == "help" {
			continue
		}
		attrs = append(attrs, slog.String(flag.Name, printed(flag)))
	}
	logger.Info("settings read", attrs...)
}

func printed(flag *kong.Flag) string {
	if !flag.Target.CanInterface() {
		return ""
	}
	return fmt.Sprint(flag.Target.Interface())
}

// Variable is the environment variable of a flag: LOGBOOM_NATS_URL for
// nats-url.
func Variable(flag string) string {
	return envPrefix + "_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}
