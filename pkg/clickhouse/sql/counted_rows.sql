SELECT _stream, toInt64(toUnixTimestamp(hour)) AS start, sumIf(records, measure IN ('logs', 'events')), max(_seq)
FROM usage FINAL
WHERE hour >= toDateTime({since:Int64}, 'UTC')
  AND project NOT IN (
    SELECT extract(command, 'project = \'([^\']+)\'') AS deleted
    FROM system.mutations
    WHERE database = currentDatabase() AND table = 'usage' AND deleted != ''
  )
GROUP BY _stream, start
