// Package docker tests container logs with a real Docker Engine: the built-in
// HTTP log driver and the collector plugin, into a real Logboom.
//
// It starts a dockerd of its own, apart from any that runs on the host: other
// folders, another socket, no bridge and no firewall rules. That needs root and
// Docker's programs (Debian: docker.io). Images are made from one static
// program; no registry is asked. Tests run one after the other, since they stop
// and kill what they share.
package docker
