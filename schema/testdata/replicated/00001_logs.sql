-- +goose NO TRANSACTION
-- +goose Up

-- One row per log entry. docs/decisions/0003-schema.md gives the reasons for the columns.
CREATE TABLE IF NOT EXISTS logs ON CLUSTER 'main' (
    project         LowCardinality(String) CODEC(ZSTD(1)),
    timestamp       DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    application     LowCardinality(String) CODEC(ZSTD(1)),
    severity        LowCardinality(String) CODEC(ZSTD(1)),
    severity_number UInt8 CODEC(ZSTD(1)),
    data            String CODEC(ZSTD(2)) SETTINGS (max_compress_block_size = 2097152),
    metadata        Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    host            LowCardinality(String) CODEC(ZSTD(1)),
    source          LowCardinality(String) CODEC(ZSTD(1)),
    retention_days  UInt16 CODEC(ZSTD(1)),

    -- Where the row came from in the queue, which is also its identity:
    -- stream LOGS_<shard>, sequence, position in the message, and the time at
    -- which the queue received the message.
    _shard          UInt8 CODEC(ZSTD(1)),
    _seq            UInt64 CODEC(Delta(8), ZSTD(3)),
    _idx            UInt32 CODEC(Delta(4), ZSTD(1)),
    _recv           DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),

    -- For counting the rows of a range of sequences.
    INDEX seq_range _seq TYPE minmax GRANULARITY 1,
    -- For hasToken(lower(data), word). An insert does not build this index and the next
    -- one, because a merge would build them again: a part that was never merged is read
    -- as a whole.
    INDEX data_words lower(data) TYPE tokenbf_v1(16384, 2, 0) GRANULARITY 1,
    -- For has(arrayMap(v -> lower(v), mapValues(metadata)), value), in exactly this form.
    INDEX metadata_values arrayMap(v -> lower(v), mapValues(metadata)) TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = ReplicatedMergeTree
PARTITION BY toDate(_recv)
ORDER BY (project, timestamp)
-- By whole days, so that a part without mixed retentions expires at one moment and
-- is dropped without being read. 0 keeps rows forever; the bound keeps the sum
-- within DateTime, which ends in 2106.
TTL toStartOfDay(_recv) + toIntervalDay(1 + if(retention_days = 0, 20000, least(retention_days, 20000)))
SETTINGS
    fsync_after_insert = 1,
    fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1,
    min_compressed_bytes_to_fsync_after_merge = 1,
    replicated_deduplication_window = 10000,
    replicated_deduplication_window_seconds = 604800,
    max_suspicious_broken_parts = 1000,
    -- Ten parts of one size become one, not five: a line is rewritten half as often.
    merge_selector_base = 10;
