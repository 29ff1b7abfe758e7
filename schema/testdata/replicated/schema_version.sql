CREATE TABLE IF NOT EXISTS schema_version ON CLUSTER 'main' (
    version Int64,
    applied DateTime('UTC') DEFAULT now()
)
ENGINE = ReplicatedReplacingMergeTree
ORDER BY version
SETTINGS
    fsync_after_insert = 1,
    fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1,
    min_compressed_bytes_to_fsync_after_merge = 1,
    max_suspicious_broken_parts = 1000
