//go:build !linux

package cluster

import (
	"errors"
)

var errNoDaemon = errors.New("no Docker daemon answers: start Docker and try again")

type daemon struct{}

func again() (int, error)           { return 1, errNoDaemon }
func startDaemon() (*daemon, error) { return nil, errNoDaemon }
func (*daemon) stop() error         { return nil }
