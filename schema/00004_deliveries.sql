-- +goose NO TRANSACTION
-- +goose Up

-- What became of each notification: one row per state that it entered. The
-- destination is redacted before it is stored, and at most 1 KiB of the answer is
-- kept.
CREATE TABLE IF NOT EXISTS deliveries (
    project     LowCardinality(String) CODEC(ZSTD(1)),
    time        DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    event       String CODEC(ZSTD(1)),
    destination LowCardinality(String) CODEC(ZSTD(1)),
    format      LowCardinality(String) CODEC(ZSTD(1)),
    attempt     UInt16 CODEC(ZSTD(1)),
    state       Enum8('queued' = 1, 'attempt' = 2, 'delivered' = 3, 'failed' = 4, 'coalesced' = 5) CODEC(ZSTD(1)),
    status      UInt16 CODEC(ZSTD(1)),
    answer      String CODEC(ZSTD(1)),
    detail      String CODEC(ZSTD(1))
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(time)
ORDER BY (project, time)
TTL toDateTime(time, 'UTC') + toIntervalDay(90)
SETTINGS
    fsync_after_insert = 1,
    fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1,
    min_compressed_bytes_to_fsync_after_merge = 1,
    non_replicated_deduplication_window = 10000,
    max_suspicious_broken_parts = 1000;
