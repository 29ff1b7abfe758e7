// Package project stores projects: their settings, their quotas' settings and
// where their alerts go. It is the system of record for them, in two JetStream
// key-value buckets, PROJECTS and ALERTS.
//
// A record's path begins here: ingest finds the project of a token (package
// token) and carries the project's ID from then on. Admin changes projects
// through Store, and every process sees a change by a watch on the bucket.
//
// A newcomer might expect a project to be its name. It is its ID: a project
// that is deleted and created again under the same name has another ID, and
// nothing that belonged to the first (tokens, API keys' rights, rows) belongs
// to the second.
package project
