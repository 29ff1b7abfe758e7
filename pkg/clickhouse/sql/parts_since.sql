SELECT table, name, rows, min_time
FROM system.parts
WHERE database = currentDatabase()
  AND active
  AND table IN ('logs', 'events', 'usage')
  AND table IN (SELECT name FROM system.tables WHERE database = currentDatabase() AND engine IN ('MergeTree', 'ReplacingMergeTree'))
  AND modification_time >= now() - toIntervalSecond({seconds:UInt32})
ORDER BY table, name
