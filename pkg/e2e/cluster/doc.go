// Package cluster tests Logboom as a cluster: two of each process and real
// engines, each in its own container on a private network. Containers are killed,
// paused and disconnected under load. At the end every accepted record must be
// stored exactly once.
//
// LOGBOOM_TEST_NATS_IMAGE, …_REDIS_IMAGE and …_CLICKHOUSE_IMAGE name the images of
// the engines, for example nats:2.15.2-alpine. Without them deploy/images/local.sh
// builds local images from the versions in go.mod and the programs on this machine,
// without a registry. The tests use a Docker daemon that answers. If there is none,
// root starts one for the duration of the tests in its own network namespace.
//
// With the build tag compose there is one more test, which uses deploy/compose as
// its users do (make compose-up-test).
package cluster
