SELECT count()
FROM system.detached_parts
WHERE database = currentDatabase()
  AND startsWith(coalesce(reason, ''), 'broken')
  AND table IN (SELECT name FROM system.tables WHERE database = currentDatabase() AND engine IN ('MergeTree', 'ReplacingMergeTree'))
