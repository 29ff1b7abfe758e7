-- +goose NO TRANSACTION
-- +goose Up

-- What each project sent, by hour, measure, reason and stream: everything that the
-- stream has brought up to its message _seq. A batch inserts the rows that it adds
-- to again, and of rows with the same key the one with the most records replaces
-- the others, whatever failed in between. So the table grows with hours, not with
-- batches; until a merge, reads need FINAL.
CREATE TABLE IF NOT EXISTS usage (
    project LowCardinality(String) CODEC(ZSTD(1)),
    hour    DateTime('UTC') CODEC(Delta(4), ZSTD(1)),
    measure LowCardinality(String) CODEC(ZSTD(1)),
    reason  LowCardinality(String) CODEC(ZSTD(1)),
    records UInt64 CODEC(ZSTD(1)),
    bytes   UInt64 CODEC(ZSTD(1)),
    _stream LowCardinality(String) CODEC(ZSTD(1)),
    _seq    UInt64 CODEC(Delta(8), ZSTD(1))
)
ENGINE = ReplacingMergeTree(records)
-- A day that is over is soon merged into one part, so that FINAL has nothing to
-- merge; and reading one hour reads one day.
PARTITION BY toDate(hour)
PRIMARY KEY (project, hour)
ORDER BY (project, hour, measure, reason, _stream)
TTL hour + toIntervalDay(400)
SETTINGS
    fsync_after_insert = 1,
    fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1,
    min_compressed_bytes_to_fsync_after_merge = 1,
    non_replicated_deduplication_window = 10000,
    max_suspicious_broken_parts = 1000;
