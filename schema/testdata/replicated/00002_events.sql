-- +goose NO TRANSACTION
-- +goose Up

-- One row per event. There are few beside the logs, so there is no index of words.
CREATE TABLE IF NOT EXISTS events ON CLUSTER 'main' (
    project        LowCardinality(String) CODEC(ZSTD(1)),
    timestamp      DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    channel        LowCardinality(String) CODEC(ZSTD(1)),
    title          String CODEC(ZSTD(1)),
    description    String CODEC(ZSTD(1)),
    icon           LowCardinality(String) CODEC(ZSTD(1)),
    notify         Bool CODEC(ZSTD(1)),
    tags           Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    retention_days UInt16 CODEC(ZSTD(1)),

    -- As in logs, from the stream EVENTS_<shard>.
    _shard         UInt8 CODEC(ZSTD(1)),
    _seq           UInt64 CODEC(Delta(8), ZSTD(1)),
    _idx           UInt32 CODEC(ZSTD(1)),
    _recv          DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),

    INDEX seq_range _seq TYPE minmax GRANULARITY 1
)
ENGINE = ReplicatedMergeTree
PARTITION BY toDate(_recv)
ORDER BY (project, timestamp)
TTL toStartOfDay(_recv) + toIntervalDay(1 + if(retention_days = 0, 20000, least(retention_days, 20000)))
SETTINGS
    fsync_after_insert = 1,
    fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1,
    min_compressed_bytes_to_fsync_after_merge = 1,
    replicated_deduplication_window = 10000,
    replicated_deduplication_window_seconds = 604800,
    max_suspicious_broken_parts = 1000;
