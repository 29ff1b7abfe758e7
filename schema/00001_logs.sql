-- +goose NO TRANSACTION
-- +goose Up

-- One row a log entry. docs/decisions/0003-schema.md says why it looks so.
--
-- No column of any table has a default that can be read: ClickHouse reads a column
-- whose file is empty as its default, in queries and in merges
-- (docs/decisions/0006-durability.md). So an insert names every column.
CREATE TABLE IF NOT EXISTS logs (
    project         LowCardinality(String) DEFAULT throwIf(materialize(1), 'a part has lost its column') CODEC(ZSTD(1)),
    timestamp       DateTime64(9, 'UTC') DEFAULT throwIf(materialize(1), 'a part has lost its column') CODEC(Delta(8), ZSTD(1)),
    application     LowCardinality(String) DEFAULT throwIf(materialize(1), 'a part has lost its column') CODEC(ZSTD(1)),
    severity        LowCardinality(String) DEFAULT throwIf(materialize(1), 'a part has lost its column') CODEC(ZSTD(1)),
    severity_number UInt8 DEFAULT throwIf(materialize(1), 'a part has lost its column') CODEC(ZSTD(1)),
    data            String DEFAULT throwIf(materialize(1), 'a part has lost its column') CODEC(ZSTD(2)) SETTINGS (max_compress_block_size = 2097152),
    metadata        Map(LowCardinality(String), String) DEFAULT map('', toString(throwIf(materialize(1), 'a part has lost its column'))) CODEC(ZSTD(1)),
    host            LowCardinality(String) DEFAULT throwIf(materialize(1), 'a part has lost its column') CODEC(ZSTD(1)),
    source          LowCardinality(String) DEFAULT throwIf(materialize(1), 'a part has lost its column') CODEC(ZSTD(1)),
    retention_days  UInt16 DEFAULT throwIf(materialize(1), 'a part has lost its column') CODEC(ZSTD(1)),

    -- Where the row came from in the queue, which is also its identity:
    -- stream LOGS_<shard>, sequence, position in the message, and the time at
    -- which the queue had it.
    _shard          UInt8 DEFAULT throwIf(materialize(1), 'a part has lost its column') CODEC(ZSTD(1)),
    _seq            UInt64 DEFAULT throwIf(materialize(1), 'a part has lost its column') CODEC(Delta(8), ZSTD(3)),
    _idx            UInt32 DEFAULT throwIf(materialize(1), 'a part has lost its column') CODEC(Delta(4), ZSTD(1)),
    _recv           DateTime64(9, 'UTC') DEFAULT throwIf(materialize(1), 'a part has lost its column') CODEC(Delta(8), ZSTD(1)),

    -- For counting the rows of a range of sequences.
    INDEX seq_range _seq TYPE minmax GRANULARITY 1,
    -- For hasToken(lower(data), word). An insert leaves this and the next to the first
    -- merge, which would build them again: a part that none has met is read as a whole.
    INDEX data_words lower(data) TYPE tokenbf_v1(16384, 2, 0) GRANULARITY 1,
    -- For has(arrayMap(v -> lower(v), mapValues(metadata)), value), written so.
    INDEX metadata_values arrayMap(v -> lower(v), mapValues(metadata)) TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(_recv)
ORDER BY (project, timestamp)
-- By whole days, so that a part without mixed retentions expires in one moment and
-- is dropped unread. 0 keeps for ever; the bound keeps the sum inside DateTime,
-- which ends in 2106.
TTL toStartOfDay(_recv) + toIntervalDay(1 + if(retention_days = 0, 20000, least(retention_days, 20000)))
SETTINGS
    fsync_after_insert = 1,
    fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1,
    min_compressed_bytes_to_fsync_after_merge = 1,
    non_replicated_deduplication_window = 10000,
    max_suspicious_broken_parts = 1000,
    -- Ten parts of one size become one, not five: half as many rewrites of a line.
    merge_selector_base = 10;
