-- +goose NO TRANSACTION
-- +goose Up

-- What each project sent, by hour: one row a batch, hour, measure and reason.
-- The batch is named by its stream and first sequence. The ledger inserts a
-- batch again with the same cut or not at all, so a repeated row replaces
-- itself and reads with FINAL count it once, whatever failed in between.
CREATE TABLE IF NOT EXISTS usage (
    project LowCardinality(String) DEFAULT throwIf(materialize(1), 'a part has lost its column') CODEC(ZSTD(1)),
    hour    DateTime('UTC') DEFAULT throwIf(materialize(1), 'a part has lost its column') CODEC(Delta(4), ZSTD(1)),
    measure LowCardinality(String) DEFAULT throwIf(materialize(1), 'a part has lost its column') CODEC(ZSTD(1)),
    reason  LowCardinality(String) DEFAULT throwIf(materialize(1), 'a part has lost its column') CODEC(ZSTD(1)),
    records UInt64 DEFAULT throwIf(materialize(1), 'a part has lost its column') CODEC(ZSTD(1)),
    bytes   UInt64 DEFAULT throwIf(materialize(1), 'a part has lost its column') CODEC(ZSTD(1)),
    _stream LowCardinality(String) DEFAULT throwIf(materialize(1), 'a part has lost its column') CODEC(ZSTD(1)),
    _seq    UInt64 DEFAULT throwIf(materialize(1), 'a part has lost its column') CODEC(Delta(8), ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(hour)
PRIMARY KEY (project, hour)
ORDER BY (project, hour, measure, reason, _stream, _seq)
TTL hour + toIntervalDay(400)
SETTINGS
    fsync_after_insert = 1,
    fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1,
    min_compressed_bytes_to_fsync_after_merge = 1,
    non_replicated_deduplication_window = 10000,
    max_suspicious_broken_parts = 1000;
