SELECT hour, measure, reason, sum(records), sum(bytes)
FROM usage FINAL
WHERE project = {project:String}
  AND hour >= toDateTime({from:Int64}, 'UTC')
  AND hour < toDateTime({to:Int64}, 'UTC')
GROUP BY hour, measure, reason
ORDER BY hour, measure, reason
LIMIT {limit:UInt32}
