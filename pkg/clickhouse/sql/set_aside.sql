SELECT
    d.table,
    d.name,
    d.partition_id,
    startsWith(coalesce(d.reason, ''), 'broken') AS broken,
    countIf(p.name != '' AND p.max_block_number >= d.min_block_number AND p.min_block_number <= d.max_block_number) > 0 AS overlapped,
    countIf(p.name = d.name) > 0 AS in_use
FROM system.detached_parts AS d
LEFT JOIN (
    SELECT table, name, partition_id, min_block_number, max_block_number
    FROM system.parts
    WHERE database = currentDatabase() AND active
) AS p ON p.table = d.table AND p.partition_id = d.partition_id
WHERE d.database = currentDatabase()
  AND d.table IN (SELECT name FROM system.tables WHERE database = currentDatabase() AND engine IN ('MergeTree', 'ReplacingMergeTree'))
GROUP BY ALL
ORDER BY d.table, d.name
LIMIT {limit:UInt32}
