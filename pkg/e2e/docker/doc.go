// Package docker tests container logs with a real Docker Engine: the built-in
// HTTP log driver and the collector plugin, into a real Logboom.
//
// It starts its own dockerd, separate from one that runs on the host: with other
// folders, another socket, no bridge and no firewall rules. That needs root and
// Docker's programs (Debian: docker.io). The image contains one static program, so
// no registry is needed. The tests run one after the other, because they stop and
// kill what they share.
package docker
