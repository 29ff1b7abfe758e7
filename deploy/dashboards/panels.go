package main

// boards returns the dashboards: one that shows whether Logboom works, and one
// for each service that shows why it does not.
func boards() []board {
	return []board{
		{"logboom", "Logboom", []row{flow(), trouble()}},
		{"logboom-ingest", "Logboom: ingest", []row{requests("ingest"), intake(), redis()}},
		{"logboom-writer", "Logboom: writer", []row{lag(), batches(), audit()}},
		{"logboom-alerts", "Logboom: alerts and admin", []row{alerts(), requests("admin")}},
	}
}

func flow() row {
	return row{"Flow", []panel{
		{"Records", "Records accepted and records stored. If the two lines differ, records wait in the queue.", "cps", []query{
			{"sum(rate(logboom_ingest_records_total[5m]))", "accepted"}, {"sum(rate(logboom_writer_rows_total[5m]))", "stored"},
		}},
		{"Waiting", "Records in the queue that are not stored yet.", "short", []query{{"sum(max by (stream) (logboom_writer_lag_records))", "records"}}},
		{"Age of the oldest waiting record", "How long it takes until a log can be read. Seconds are normal, minutes are not.", "s", []query{{"max(logboom_writer_lag_seconds)", "oldest"}}},
	}}
}

func trouble() row {
	return row{"Trouble", []panel{
		{"Stopped streams", "Above zero an operator must act. The legend names the reason.", "short", []query{{"max by (stream, reason) (logboom_writer_stopped)", "{{stream}} {{reason}}"}}},
		{"Refused", "Requests that were refused or failed, by code.", "reqps", []query{{"sum by (code) (rate(logboom_ingest_failures_total[5m]))", "{{code}}"}}},
		{"Dead letters", "Messages that could not be stored or delivered, per hour.", "short", []query{
			{"sum by (reason) (increase(logboom_writer_dropped_total[1h]))", "storing: {{reason}}"}, {"sum by (reason) (increase(logboom_notifier_dropped_total[1h]))", "delivering: {{reason}}"},
		}},
	}}
}

// requests returns the panels that all services with HTTP requests share.
func requests(service string) row {
	name := "logboom_" + service
	return row{"Requests", []panel{
		{"Requests", "By route.", "reqps", []query{{"sum by (route) (rate(" + name + "_requests_total[5m]))", "{{route}}"}}},
		{"Failures", "By route and code.", "reqps", []query{{"sum by (route, code) (rate(" + name + "_failures_total[5m]))", "{{route}} {{code}}"}}},
		{"Duration", "The median, and the 99th percentile.", "s", []query{
			{"histogram_quantile(0.5, sum by (le) (rate(" + name + "_request_duration_seconds_bucket[5m])))", "p50"},
			{"histogram_quantile(0.99, sum by (le) (rate(" + name + "_request_duration_seconds_bucket[5m])))", "p99"},
		}},
	}}
}

func intake() row {
	return row{"Intake", []panel{
		{"Text", "Bytes of text accepted.", "Bps", []query{{"sum by (kind) (rate(logboom_ingest_records_bytes_total[5m]))", "{{kind}}"}}},
		{"Entries refused", "Entries that were refused while other entries of the same body were accepted.", "cps", []query{{"sum by (reason) (rate(logboom_ingest_dropped_total[5m]))", "{{reason}}"}}},
		{"Records per message", "How many records share one sync of the queue's disk.", "short", []query{{"sum(rate(logboom_ingest_records_total[5m])) / sum(rate(logboom_ingest_messages_total[5m]))", "records"}}},
		{"Memory of bodies", "Memory of request bodies. Above the limit requests are answered 503.", "bytes", []query{{"logboom_ingest_body_memory_bytes", "{{instance}}"}}},
		{"Bytes waiting for the queue", "If this grows, the queue's disk is slow.", "bytes", []query{{"logboom_ingest_pending_bytes", "{{instance}}"}}},
		{"Quotas", "Requests refused because a quota was used up.", "reqps", []query{
			{"sum(rate(logboom_ingest_quota_refusals_rate_total[5m]))", "rate"},
			{"sum(rate(logboom_ingest_quota_refusals_daily_records_total[5m]))", "daily_records"},
			{"sum(rate(logboom_ingest_quota_refusals_monthly_bytes_total[5m]))", "monthly_bytes"},
		}},
	}}
}

func redis() row {
	return row{"Tokens and Redis", []panel{
		{"Token lookups", "Answered from the process's memory, from Redis, or from the system of record.", "ops", []query{
			{"sum(rate(logboom_ingest_token_hits_total[5m]))", "memory"}, {"sum(rate(logboom_ingest_token_shared_hits_total[5m]))", "Redis"},
			{"sum(rate(logboom_ingest_token_lookups_total[5m]))", "record"}, {"sum(rate(logboom_ingest_token_unavailable_total[5m]))", "failed"},
		}},
		{"Redis failures", "Operations that failed or timed out.", "ops", []query{
			{"sum(rate(logboom_ingest_shared_cache_failures_total[5m]))", "tokens"}, {"sum(rate(logboom_ingest_quota_failures_total[5m]))", "quotas"},
		}},
		{"Decided without Redis", "Requests whose quota was checked by the process alone.", "reqps", []query{{"sum(rate(logboom_ingest_quota_fallbacks_total[5m]))", "requests"}}},
	}}
}

func lag() row {
	return row{"Lag", []panel{
		{"Records", "By stream.", "short", []query{{"max by (stream) (logboom_writer_lag_records)", "{{stream}}"}}},
		{"Messages", "By stream.", "short", []query{{"max by (stream) (logboom_writer_lag_messages)", "{{stream}}"}}},
		{"Age", "Age of the oldest message that is not stored.", "s", []query{{"max by (stream) (logboom_writer_lag_seconds)", "{{stream}}"}}},
	}}
}

func batches() row {
	return row{"Batches", []panel{
		{"Rows", "Stored and committed.", "cps", []query{{"sum by (stream) (rate(logboom_writer_rows_total[5m]))", "{{stream}}"}}},
		{"Rows per batch", "ClickHouse stores large batches more cheaply.", "short", []query{{"sum(rate(logboom_writer_rows_total[5m])) / sum(rate(logboom_writer_batches_total[5m]))", "rows"}}},
		{"Duration", "From a batch's intent to its commit.", "s", []query{
			{"histogram_quantile(0.5, sum by (le) (rate(logboom_writer_batch_duration_seconds_bucket[5m])))", "p50"},
			{"histogram_quantile(0.99, sum by (le) (rate(logboom_writer_batch_duration_seconds_bucket[5m])))", "p99"},
		}},
		{"Failures", "Requests to ClickHouse that failed and are retried.", "ops", []query{{"sum by (reason) (rate(logboom_writer_failures_total[5m]))", "{{reason}}"}}},
		{"Writers", "The number of writers, as each writer sees it.", "short", []query{{"logboom_writer_members", "{{instance}}"}}},
		{"Burnt tokens", "Inserts that ClickHouse dropped as repeats although their rows were missing. They were repeated with a new token.", "short", []query{{"sum by (stream) (increase(logboom_writer_burnt_tokens_total[1h]))", "{{stream}}"}}},
	}}
}

func audit() row {
	return row{"Audit", []panel{
		{"Audits", "Audits by result. Act on found and failed.", "short", []query{{"sum by (result) (increase(logboom_writer_audits_total[6h]))", "{{result}}"}}},
		{"Wrong rows", "Missing, doubled, or ahead of the ledger.", "short", []query{
			{"max by (stream) (logboom_writer_audit_missing_rows)", "{{stream}} missing"},
			{"max by (stream) (logboom_writer_audit_doubled_rows)", "{{stream}} doubled"}, {"max by (stream) (logboom_writer_audit_ahead_messages)", "{{stream}} ahead"},
		}},
		{"Parts set aside", "By ClickHouse, as broken: their rows are missing from answers.", "short", []query{{"max(logboom_writer_parts_set_aside)", "parts"}}},
	}}
}

func alerts() row {
	return row{"Alerts", []panel{
		{"Attempts", "Attempts to deliver a message, by outcome.", "cps", []query{{"sum by (outcome) (rate(logboom_notifier_attempts_total[5m]))", "{{outcome}}"}}},
		{"Waiting", "Alerts that wait for their destination.", "short", []query{{"sum(logboom_notifier_waiting_alerts)", "alerts"}}},
		{"Dead letters", "Notifications that became dead letters, per hour.", "short", []query{{"sum by (reason) (increase(logboom_notifier_dropped_total[1h]))", "{{reason}}"}}},
	}}
}
