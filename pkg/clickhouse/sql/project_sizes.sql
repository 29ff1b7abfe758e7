SELECT project, sum(records) AS stored, sum(bytes) AS text
FROM usage FINAL
WHERE hour >= toDateTime({since:Int64}, 'UTC')
  AND measure IN ('logs', 'events')
GROUP BY project
ORDER BY text DESC, project
LIMIT {limit:UInt32}
