// Package cluster tests Logboom as a cluster runs it: two of each process and
// real engines, each in a container of its own on a private network, while
// containers are killed, paused and cut off under load. At the end every
// accepted record must be stored exactly once.
//
// Images of engines are settings: LOGBOOM_TEST_NATS_IMAGE, …_REDIS_IMAGE and
// …_CLICKHOUSE_IMAGE, such as nats:2.15.2-alpine. Without them local ones are
// made of what go.mod pins and what this machine has, so that no registry is
// needed (deploy/images/local.sh). A Docker daemon that answers is used; where
// there is none, root starts one that lives as long as the tests do, in a
// network namespace of its own.
//
// With the build tag compose there is one test more, which does with
// deploy/compose what its users do (make compose-up-test).
package cluster
